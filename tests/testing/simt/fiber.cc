#include "tests/testing/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves what the System V ABI says a callee keeps, leaves the stack pointer in *save, and continues at `load`. The
// floating-point control words are the same in all fibers and stay as they are.
extern "C" void SimtSwitch(void** save, void* load);
asm(R"(
.text
.globl SimtSwitch
.type SimtSwitch,@function
SimtSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size SimtSwitch, .-SimtSwitch
)");
constexpr int kSavedRegisters = 6;
#else
#include <ucontext.h>
#endif

namespace rondo::simt {
namespace {

thread_local Fiber* g_entering = nullptr;

#if !defined(__x86_64__)
// Elsewhere the C library's slower switch; a "stack pointer" is then a ucontext_t.
void SimtSwitch(void** save, void* load) {
  if (*save == nullptr) *save = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(*save), static_cast<ucontext_t*>(load));
}
#endif

}  // namespace

Stacks::Stacks(int count, size_t bytes_each) : bytes_each_(bytes_each) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  stride_ = bytes_each + page;
  total_ = stride_ * static_cast<size_t>(count) + page;
  void* mapping = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RONDO_CHECK(mapping != MAP_FAILED);
  base_ = static_cast<char*>(mapping) + page;
  // A stack grows down: an overflow faults in the page below it.
  for (int i = 0; i < count; ++i) mprotect(stack(i) - page, page, PROT_NONE);
}

Stacks::~Stacks() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(base_ - page, total_);
}

void Fiber::Start(char* stack, size_t bytes, std::function<void()> body) {
  body_ = std::move(body);
  done_ = false;
  stack_ = stack;
  stack_bytes_ = bytes;
  fake_stack_ = nullptr;
#if defined(__x86_64__)
  // As if Enter had been called and had then switched away: its address, and the registers to pop before it. 8 bytes
  // off a multiple of 16, which is how a function finds its stack.
  auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{15}) - 8);
  *top = nullptr;
  *--top = reinterpret_cast<void*>(&Fiber::Enter);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  own_sp_ = top;
#else
  if (own_sp_ == nullptr) own_sp_ = new ucontext_t;
  auto* context = static_cast<ucontext_t*>(own_sp_);
  getcontext(context);
  context->uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = bytes};
  context->uc_link = nullptr;
  makecontext(context, &Fiber::Enter, 0);
#endif
}

void Fiber::Enter() {
  Fiber& self = *g_entering;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
#endif
  self.body_();
  self.done_ = true;
  self.Suspend();
  abort();  // nobody resumes what is done
}

void Fiber::Resume() {
  g_entering = this;
#if defined(__SANITIZE_ADDRESS__)
  void* scheduler_fake = nullptr;
  __sanitizer_start_switch_fiber(&scheduler_fake, stack_, stack_bytes_);
#endif
  SimtSwitch(&scheduler_sp_, own_sp_);
#if defined(__SANITIZE_ADDRESS__)
  const void* old = nullptr;
  size_t old_bytes = 0;
  __sanitizer_finish_switch_fiber(scheduler_fake, &old, &old_bytes);
#endif
}

void Fiber::Suspend() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(done_ ? nullptr : &fake_stack_, scheduler_stack_, scheduler_stack_bytes_);
#endif
  SimtSwitch(&own_sp_, scheduler_sp_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

}  // namespace rondo::simt
