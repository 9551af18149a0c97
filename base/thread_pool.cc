#include "base/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>

#include "base/fp_env.h"

namespace rondo {
namespace {
// Between two kernels of a layer lie a few microseconds: spinning that long saves a futex wake-up each. Longer waits
// sleep, so that idle ranks use no CPU and oversubscribed ones give way.
constexpr int kSpins = 2000;
}  // namespace

ThreadPool::ThreadPool(int threads, const char* name) : done_tasks_(new Count[threads < 1 ? 1 : threads]) {
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker, name] { WorkerLoop(worker, name); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    ++generation_;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

uint64_t ThreadPool::tasks_done() const {
  uint64_t tasks = 0;
  for (int worker = 0; worker < threads(); ++worker) tasks += done_tasks_[worker].tasks.load(std::memory_order_relaxed);
  return tasks;
}

void ThreadPool::Drain(int worker) {
  for (;;) {
    const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= tasks_) return;
    (*task_)(i, worker);
    done_tasks_[worker].Add();
  }
}

void ThreadPool::Run(int64_t tasks, absl::FunctionRef<void(int64_t, int)> task) {
  ScopedComputeFpEnv fp_env;
  if (workers_.empty() || tasks <= 1) {
    for (int64_t i = 0; i < tasks; ++i) {
      task(i, 0);
      done_tasks_[0].Add();
    }
    return;
  }
  task_ = &task;
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  active_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  Drain(0);
  for (int spin = 0; spin < kSpins; ++spin) {
    if (active_.load(std::memory_order_acquire) == 0) return;
    _mm_pause();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return active_.load(std::memory_order_acquire) == 0; });
}

void ThreadPool::WorkerLoop(int worker, const char* name) {
  pthread_setname_np(pthread_self(), name);
  SetComputeFpEnv();
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) _mm_pause();
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_) return;
    Drain(worker);
    if (active_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace rondo
