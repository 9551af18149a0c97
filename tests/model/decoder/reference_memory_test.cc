// What ReferenceDecoder says that it needs, against what it takes: every allocation of this process is counted.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/thread_pool.h"
#include "model/decoder/reference_decoder.h"
#include "tests/model/decoder/decoder_fixture.h"
#include "tests/testing/test_data.h"
#include "tests/testing/tiny_llama.h"

namespace {

std::atomic<int64_t> live{0}, peak{0};

void* Counted(size_t bytes) {
  void* p = std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  const int64_t now = live += static_cast<int64_t>(malloc_usable_size(p));
  for (int64_t seen = peak; now > seen && !peak.compare_exchange_weak(seen, now);) {
  }
  return p;
}

void Uncounted(void* p) noexcept {
  if (p != nullptr) live -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(size_t bytes) { return Counted(bytes); }
void* operator new[](size_t bytes) { return Counted(bytes); }
void operator delete(void* p) noexcept { Uncounted(p); }
void operator delete[](void* p) noexcept { Uncounted(p); }
void operator delete(void* p, size_t) noexcept { Uncounted(p); }
void operator delete[](void* p, size_t) noexcept { Uncounted(p); }

namespace rondo {
namespace {

TEST(ReferenceMemory, IsWhatItSays) {
  const std::string path = TestTempDir() + "/reference-memory.gguf";
  ASSERT_TRUE(WriteTinyLlama(path, {}).ok());
  const LoadedModel model = LoadOrDie(path);
  for (const int threads : {1, 2}) {
    for (const int64_t prompt : {1, 500}) {
      const int64_t total = prompt + 400;
      ThreadPool pool(threads);
      const std::vector<int32_t> tokens(prompt, 7);
      const int64_t before = live;
      peak = before;
      {
        ReferenceDecoder decoder(model.config, model.weights, pool);
        decoder.Reserve(total);
        decoder.Append(tokens, [](double) { return true; });
        for (int64_t i = 0; i < 20; ++i) decoder.Append({3}, [](double) { return true; });
      }
      const double says = ReferenceDecoder::MemoryBytes(model.config, prompt, total, threads);
      const double takes = peak - before;
      // A few hundred small allocations (frequencies, the vectors' own headers) are not in the formula.
      EXPECT_LE(takes, says * 1.02 + 16384) << prompt << " " << threads;
      EXPECT_GE(takes, says * 0.9) << prompt << " " << threads;
    }
  }
}

}  // namespace
}  // namespace rondo
