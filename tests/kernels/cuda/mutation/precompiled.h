// What no mutant changes, compiled once for all of them: the standard library and the emulator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/device/hopper.h"
#include "tests/kernels/cuda/emulated.h"
