// One fiber a CUDA thread: a stack of its own and a switch between it and the scheduler. Used by the emulator's Cta.
#pragma once

#include <cstddef>
#include <functional>

namespace rondo::simt {

// The stacks of all threads of a CTA, in one mapping, reused from CTA to CTA.
class Stacks {
 public:
  Stacks(int count, size_t bytes_each);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  char* stack(int i) const { return base_ + static_cast<size_t>(i) * stride_; }
  size_t bytes_each() const { return bytes_each_; }

 private:
  char* base_ = nullptr;
  size_t bytes_each_;
  size_t stride_;  // a stack and the page below it that nobody may touch
  size_t total_;
};

// A body that runs on its own stack and goes to and fro between that and whoever resumes it.
class Fiber {
 public:
  // `body` must not return by exception. The stack is borrowed.
  void Start(char* stack, size_t bytes, std::function<void()> body);
  // Runs the body until it suspends or ends. Called by the scheduler.
  void Resume();
  // Back to the scheduler. Called by the body.
  void Suspend();
  bool done() const { return done_; }

 private:
  static void Enter();

  std::function<void()> body_;
  bool done_ = false;
  void* own_sp_ = nullptr;
  void* scheduler_sp_ = nullptr;
  char* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  // For AddressSanitizer, which must be told of every change of stack.
  void* fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_bytes_ = 0;
};

}  // namespace rondo::simt
