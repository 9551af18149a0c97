// Which keys of a run a few neighbouring rows see, all of them together and each by itself; used by the prefill
// kernels.
#pragma once

#include "kernels/cuda/attention/masks.cuh"
#include "kernels/cuda/attention/row_place.cuh"

namespace rondo::cuda {

// Keys are counted from the first of the run.
template <int kBlock, class Place>
class RowSpan {
 public:
  RONDO_DEVICE RowSpan(const AttentionArgs& args, const Place& place) : args_(args), place_(place) {
    keys_begin = Begin(0);
    keys_end = End(place.valid_rows() - 1);
  }

  // What some row sees.
  int keys_begin, keys_end;

  // The ends of one row's interval.
  RONDO_DEVICE int Begin(int row) const { return InThisRun(VisibleBegin(args_.mask, Position(row))); }
  RONDO_DEVICE int End(int row) const { return InThisRun(VisibleEnd(args_.mask, Position(row))); }

  RONDO_DEVICE KeyInterval Interval(int row, int tile_begin) const {
    return {Begin(row) - tile_begin, End(row) - tile_begin};
  }

  // A row's own position, counted from the tile's first key. Distances that matter to ALiBi are below 2^31.
  RONDO_DEVICE int OwnKey(int row, int tile_begin) const {
    return static_cast<int>(Position(row) - args_.keys.first_block * kBlock) - tile_begin;
  }

 private:
  RONDO_DEVICE int InThisRun(int64_t position) const {
    return InRun(position, args_.keys.first_block * kBlock, args_.keys.tokens);
  }

  // Rows past the last one stand in for it, so that nothing about them is odd.
  RONDO_DEVICE int64_t Position(int row) const {
    const int last = place_.valid_rows() - 1;
    return args_.query.first_position + place_.first_row() + (row < last ? row : last);
  }

  const AttentionArgs& args_;
  const Place place_;
};

// Where some of a span's rows, `first` to `last`, see only part of the keys.
struct SpanEdges {
  int first_row_end, last_row_begin;

  template <class Span>
  RONDO_DEVICE SpanEdges(const Span& rows, int first, int last)
      : first_row_end(rows.End(first)), last_row_begin(rows.Begin(last)) {}

  // Whether some row sees only part of these keys.
  RONDO_DEVICE bool Cut(int begin, int end) const { return begin < last_row_begin || end > first_row_end; }

  // Whether some of these keys, of [keys_begin, keys_end) that were loaded, are hidden from a row.
  RONDO_DEVICE bool Mixed(int begin, int end, int keys_begin, int keys_end) const {
    return (last_row_begin > keys_begin && begin < last_row_begin) || (first_row_end < keys_end && end > first_row_end);
  }
};

}  // namespace rondo::cuda
