#include "tests/testing/simt/wgmma.h"

#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "tests/testing/simt/cta.h"
#include "tests/testing/simt/tma.h"

namespace rondo::simt {

struct WgmmaProduct {
  Half type;
  int n;
  CallSite site;
  WgmmaOperands operands;  // of the first thread; the registers are in a
  struct Lane {
    float* d;
    std::vector<float> c;  // d before
    const uint32_t* a;
  };
  std::array<Lane, kWarpgroup> lanes;
  std::shared_ptr<WgmmaProduct> before;  // in flight on the same accumulator: goes first, and leaves its sum there
  uint64_t done = 0;                     // 1 when the sums are in d

  void Run();
  float ElementA(int m, int k) const;
};

namespace {

constexpr int kRows = 64;
constexpr int kDepth = 16;

// Row of the accumulator element i of a thread, and its column: the C layout of mma.m16n8k16, repeated along n, warp w
// at rows 16 w.
int RowOf(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
int ColumnOf(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

// Every byte of the operands is there and the tensor core may see it.
void CheckOperands(const WgmmaOperands& operands, int n, CallSite site) {
  SharedMemory& shared = ThisCta().shared();
  const Descriptor b(operands.descriptor_b, site);
  // In chunks of eight elements, 16 bytes, which lie side by side.
  for (int k = 0; k < kDepth; k += operands.b_mn_major ? 1 : 8) {
    for (int mn = 0; mn < n; mn += operands.b_mn_major ? 8 : 1) {
      shared.AtAsync(Swizzle128(b.AddressOf(mn, k, operands.b_mn_major)), 16, 16, site);
    }
  }
  if (operands.a != nullptr) return;
  const Descriptor a(operands.descriptor_a, site);
  for (int m = 0; m < kRows; ++m) {
    for (int k = 0; k < kDepth; k += 8) shared.AtAsync(Swizzle128(a.AddressOf(m, k, false)), 16, 16, site);
  }
}

WgmmaQueue& MyProducts() {
  Thread& self = ThisCta().self();
  if (self.wgmmas == nullptr) self.wgmmas = std::make_shared<WgmmaQueue>();
  return *self.wgmmas;
}

float ReadShared(Half type, uint32_t address, CallSite site) {
  uint16_t bits;
  std::memcpy(&bits, ThisCta().shared().At(Swizzle128(address), 2, 2, site), 2);
  return ToFloat(type, bits);
}

}  // namespace

Descriptor::Descriptor(uint64_t bits, CallSite site)
    : start(static_cast<uint32_t>(bits & 0x3fff) << 4),
      leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
      stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4) {
  if (bits >> 62 != 1)
    ThisCta().Fail("wgmma: descriptor of swizzle mode " + std::to_string(bits >> 62) + ", not 1 (128 bytes)", site);
}

uint32_t Descriptor::AddressOf(int mn, int k, bool mn_major) const {
  const auto u = [](int x) { return static_cast<uint32_t>(x); };
  if (mn_major) return start + u(mn / 64) * leading + u(k / 8) * stride + u(k % 8) * 128 + u(mn % 64) * 2;
  return start + u(mn / 8) * stride + u(mn % 8) * 128 + u(k) * 2;
}

float WgmmaProduct::ElementA(int m, int k) const {
  if (operands.a == nullptr) {
    return ReadShared(type, Descriptor(operands.descriptor_a, site).AddressOf(m, k, false), site);
  }
  // The A layout of mma.m16n8k16 in each warp.
  const Lane& lane = lanes[m / 16 * 32 + m % 8 * 4 + k % 8 / 2];
  const uint32_t pair = lane.a[m % 16 / 8 + k / 8 * 2];
  return ToFloat(type, static_cast<uint16_t>(pair >> (16 * (k % 2))));
}

void WgmmaProduct::Run() {
  if (done != 0) return;
  if (before != nullptr) before->Run();
  std::vector<float> a(kRows * kDepth), b(static_cast<size_t>(kDepth * n));
  const Descriptor descriptor(operands.descriptor_b, site);
  for (int k = 0; k < kDepth; ++k) {
    for (int m = 0; m < kRows; ++m) a[m * kDepth + k] = ElementA(m, k);
    for (int j = 0; j < n; ++j) b[k * n + j] = ReadShared(type, descriptor.AddressOf(j, k, operands.b_mn_major), site);
  }
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    Lane& lane = lanes[thread];
    for (int i = 0; i < n / 2; ++i) {
      const float c = before != nullptr ? lane.d[i] : lane.c[i];
      float sum = operands.accumulate ? c : 0.0f;
      for (int k = 0; k < kDepth; ++k) sum += a[RowOf(thread, i) * kDepth + k] * b[k * n + ColumnOf(thread, i)];
      lane.d[i] = sum;
    }
  }
  before.reset();
  done = 1;
}

void Wgmma(Half type, std::span<float> d, const WgmmaOperands& operands, CallSite site) {
  if (!MyProducts().fenced) ThisCta().Fail("wgmma: no WgmmaFence since the registers were last written", site);
  struct Argument {
    std::span<float> d;
    const WgmmaOperands* operands;
    std::shared_ptr<WgmmaProduct> product;
  } mine{d, &operands, nullptr};
  WarpgroupCollective(&mine, site, [&](Argument** threads) {
    Cta& cta = ThisCta();
    ++cta.counters().wgmma;
    auto product = std::make_shared<WgmmaProduct>();
    product->type = type;
    product->n = static_cast<int>(d.size()) * 2;
    product->site = site;
    product->operands = *threads[0]->operands;
    CheckOperands(product->operands, product->n, site);
    // A product still in flight on these accumulators is waited for by the tensor core, not by us.
    for (auto& other : cta.wgmmas()) {
      if (other->done == 0 && other->lanes[0].d == threads[0]->d.data()) product->before = other;
    }
    for (int t = 0; t < kWarpgroup; ++t) {
      const WgmmaOperands& o = *threads[t]->operands;
      const WgmmaOperands& first = product->operands;
      if (o.descriptor_a != first.descriptor_a || o.descriptor_b != first.descriptor_b ||
          o.accumulate != first.accumulate) {
        cta.Fail("wgmma: threads " + std::to_string(t) + " and 0 of the warpgroup disagree on the operands", site);
      }
      auto& lane = product->lanes[t];
      lane.d = threads[t]->d.data();
      lane.c.assign(lane.d, lane.d + d.size());
      for (float& x : threads[t]->d) x = std::numeric_limits<float>::quiet_NaN();
      lane.a = o.a;
      threads[t]->product = product;
    }
    cta.wgmmas().push_back(product);
  });
  MyProducts().open.push_back(mine.product);
}

void WgmmaFence() { MyProducts().fenced = true; }

void WgmmaCommit(CallSite) {
  WgmmaQueue& mine = MyProducts();
  if (ThisCta().options().slow_tensor_core) {
    // Reads its operands as late as it may: when it is waited for.
  } else {
    for (const auto& product : mine.open) {
      ThisCta().Enqueue([product] { product->Run(); }, Delay::kNone);
    }
  }
  mine.groups.push_back(std::move(mine.open));
  mine.open.clear();
  ThisCta().Preempt();
}

void WgmmaWait(int keep, CallSite site) {
  WgmmaQueue& mine = MyProducts();
  Cta& cta = ThisCta();
  while (mine.groups.size() > static_cast<size_t>(keep)) {
    for (const auto& product : mine.groups.front()) {
      if (cta.options().slow_tensor_core) {
        // Other threads run on meanwhile: what they overwrite too early is what we multiply.
        cta.Enqueue([product] { product->Run(); }, Delay::kSome);
      }
      if (product->done == 0) cta.WaitWhile(&product->done, 0, site);
    }
    mine.groups.pop_front();
  }
  mine.fenced = false;
  std::erase_if(cta.wgmmas(), [](const auto& product) { return product->done != 0; });
}

}  // namespace rondo::simt
