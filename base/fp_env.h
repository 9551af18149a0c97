// The floating-point environment every compute thread of Rondo runs in; part of the definition of the bits.
#pragma once

namespace rondo {

// Round to nearest even, all exceptions masked, denormals flushed on input and output (FTZ + DAZ), as vdpbf16ps does
// by itself. Call at the start of every thread that computes; ThreadPool does so for its own.
void SetComputeFpEnv();

// For a scope: sets the compute environment and restores the caller's.
class ScopedComputeFpEnv {
 public:
  ScopedComputeFpEnv();
  ~ScopedComputeFpEnv();
  ScopedComputeFpEnv(const ScopedComputeFpEnv&) = delete;
  ScopedComputeFpEnv& operator=(const ScopedComputeFpEnv&) = delete;

 private:
  unsigned saved_;
};

}  // namespace rondo
