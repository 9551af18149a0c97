// RONDO_CHECK: for our own bugs. The world's failures are absl::Status.
#pragma once

#include <cstdio>
#include <cstdlib>

#define RONDO_CHECK(condition)                                                                  \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      std::fprintf(stderr, "%s:%d: RONDO_CHECK failed: %s\n", __FILE__, __LINE__, #condition);  \
      std::abort();                                                                             \
    }                                                                                           \
  } while (false)
