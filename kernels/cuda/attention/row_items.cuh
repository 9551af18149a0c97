// How the tiles of rows of a launch are dealt to CTAs that stay; used by the prefill kernels.
#pragma once

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

// Rows [begin, end) of one query head, and of the values' columns one part.
struct RowItem {
  int head, part;
  int begin, end;
};

// CTAs take one item after another, later rows first: under a causal mask those take longest. Every other round is
// dealt in reverse, which evens out what the CTAs get.
template <class C>
class RowItems {
 public:
  RONDO_DEVICE explicit RowItems(const AttentionArgs& args)
      : rows_(gpu::Opaque(static_cast<int>(args.query.rows))),
        tiles_((rows_ + C::kRows - 1) / C::kRows),
        columns_(args.q_heads * C::kValueParts) {}

  RONDO_DEVICE int rounds() const { return (tiles_ * columns_ + gpu::CtaCount() - 1) / gpu::CtaCount(); }

  // The number of this CTA's item; the last round may have none for it.
  RONDO_DEVICE int Number(int round) const {
    const int seat = round % 2 == 0 ? gpu::CtaIndex() : gpu::CtaCount() - 1 - gpu::CtaIndex();
    const int64_t number = round * int64_t{gpu::CtaCount()} + seat;
    return number < tiles_ * columns_ ? static_cast<int>(number) : -1;
  }

  // Heads that share keys run side by side and find them in L2.
  RONDO_DEVICE RowItem At(int number) const {
    const int begin = (tiles_ - 1 - number / columns_) * C::kRows;
    return {number % columns_ / C::kValueParts, number % C::kValueParts, begin,
            begin + C::kRows < rows_ ? begin + C::kRows : rows_};
  }

 private:
  const int rows_;
  const int tiles_;
  const int columns_;  // heads, and parts of their values
};

}  // namespace rondo::cuda
