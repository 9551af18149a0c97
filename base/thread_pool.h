// The threads of one rank: kernels split their work over it into tasks that may run in any order on any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace rondo {

// One thread calls Run at a time. The calling thread works too, so a pool of one starts no thread. All threads
// compute in SetComputeFpEnv; the caller's environment is restored when Run returns.
class ThreadPool {
 public:
  explicit ThreadPool(int threads, const char* name = "rondo-compute");
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i) for every i in [0, tasks), handed out in ascending order, and returns when all are done. `worker`
  // in [0, threads()) names the thread, for scratch.
  void Run(int64_t tasks, absl::FunctionRef<void(int64_t task, int worker)> task);

  // Tasks finished since the pool was made. Any thread: how others see that this rank is not stuck.
  uint64_t tasks_done() const;

 private:
  // A cache line for each thread, which alone writes it: counting costs no more than an addition.
  struct alignas(64) Count {
    std::atomic<uint64_t> tasks{0};
    void Add() { tasks.store(tasks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  };

  void WorkerLoop(int worker, const char* name);
  void Drain(int worker);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stop_{false};
  std::atomic<int> active_{0};  // workers still inside the current Run
  const absl::FunctionRef<void(int64_t, int)>* task_ = nullptr;
  std::atomic<int64_t> next_{0};
  int64_t tasks_ = 0;
  const std::unique_ptr<Count[]> done_tasks_;  // [threads()]
};

}  // namespace rondo
