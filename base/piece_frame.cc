#include "base/piece_frame.h"

#include <algorithm>

namespace rondo {
namespace {

// Wire types and field numbers: https://protobuf.dev/programming-guides/encoding.
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
enum PieceField : uint32_t { kJob = 1, kTensor = 2, kFirstRow = 3, kType = 4, kData = 5 };
enum JobField : uint32_t { kJobId = 1, kToken = 2, kEpoch = 3 };
// A job's name and token have a few dozen bytes; nobody may make us collect more.
constexpr uint64_t kMaxTextBytes = 4096;

void PutVarint(std::string* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

void PutNumber(std::string* to, uint32_t field, uint64_t value) {
  if (value == 0) return;  // proto3 leaves defaults out
  PutVarint(to, field << 3 | kVarint);
  PutVarint(to, value);
}

void PutText(std::string* to, uint32_t field, const std::string& text) {
  if (text.empty()) return;
  PutVarint(to, field << 3 | kBytes);
  PutVarint(to, text.size());
  *to += text;
}

// A cursor over the parts. Once something is wrong, `ok` stays false and everything read is 0.
class Cursor {
 public:
  explicit Cursor(absl::Span<const absl::Span<const uint8_t>> parts) : parts_(parts) {}

  bool ok() const { return ok_; }
  void Break() { ok_ = false; }
  uint64_t at() const { return at_; }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const uint8_t byte = Byte();
      if (!ok_) return 0;
      value |= shift < 64 ? uint64_t{byte & 0x7fu} << shift : 0;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }

  // Whether `bytes` more are there; they are passed over.
  void Skip(uint64_t bytes) {
    while (bytes > 0) {
      if (!Advance()) return;
      const uint64_t step = std::min<uint64_t>(bytes, parts_[part_].size() - offset_);
      offset_ += step;
      at_ += step;
      bytes -= step;
    }
  }

  std::string Text(uint64_t bytes) {
    std::string text;
    if (bytes > kMaxTextBytes) ok_ = false;
    while (ok_ && text.size() < bytes) text.push_back(static_cast<char>(Byte()));
    return text;
  }

  void SkipField(uint32_t wire) {
    switch (wire) {
      case kVarint:
        Varint();
        return;
      case kFixed64:
        return Skip(8);
      case kBytes:
        return Skip(Varint());
      case kFixed32:
        return Skip(4);
      default:
        Break();  // groups are no part of proto3
    }
  }

  bool AtEnd() {
    while (part_ < parts_.size() && offset_ == parts_[part_].size()) {
      ++part_;
      offset_ = 0;
    }
    return part_ == parts_.size();
  }

 private:
  bool Advance() {
    if (ok_ && AtEnd()) ok_ = false;
    return ok_;
  }
  uint8_t Byte() {
    if (!Advance()) return 0;
    ++at_;
    return parts_[part_][offset_++];
  }

  absl::Span<const absl::Span<const uint8_t>> parts_;
  size_t part_ = 0;
  size_t offset_ = 0;
  uint64_t at_ = 0;
  bool ok_ = true;
};

void ReadJob(Cursor& cursor, PieceJob* job) {
  const uint64_t size = cursor.Varint();
  if (size > 4 * kMaxTextBytes) return cursor.Break();
  const uint64_t end = cursor.at() + size;
  while (cursor.ok() && cursor.at() < end) {
    const uint64_t tag = cursor.Varint();
    if (tag == (kJobId << 3 | kBytes)) {
      job->job_id = cursor.Text(cursor.Varint());
    } else if (tag == (kToken << 3 | kBytes)) {
      job->token = cursor.Text(cursor.Varint());
    } else if (tag == (kEpoch << 3 | kVarint)) {
      job->epoch = cursor.Varint();
    } else {
      cursor.SkipField(tag & 7);
    }
  }
  if (cursor.at() != end) cursor.Break();
}

}  // namespace

std::string PieceFramePrefix(const PieceHead& head, uint64_t data_bytes) {
  std::string frame;
  if (head.has_job) {
    std::string job;
    PutText(&job, kJobId, head.job.job_id);
    PutText(&job, kToken, head.job.token);
    PutNumber(&job, kEpoch, head.job.epoch);
    PutVarint(&frame, kJob << 3 | kBytes);
    PutVarint(&frame, job.size());
    frame += job;
  }
  PutNumber(&frame, kTensor, static_cast<uint64_t>(head.tensor));
  PutNumber(&frame, kFirstRow, static_cast<uint64_t>(head.first_row));
  PutNumber(&frame, kType, static_cast<uint64_t>(head.type));
  PutVarint(&frame, kData << 3 | kBytes);
  PutVarint(&frame, data_bytes);
  return frame;
}

absl::StatusOr<PieceFrame> ParsePieceFrame(absl::Span<const absl::Span<const uint8_t>> parts) {
  Cursor cursor(parts);
  PieceFrame frame;
  while (cursor.ok() && !cursor.AtEnd()) {
    const uint64_t tag = cursor.Varint();
    if (tag == (kJob << 3 | kBytes)) {
      frame.head.has_job = true;
      ReadJob(cursor, &frame.head.job);
    } else if (tag == (kTensor << 3 | kVarint)) {
      frame.head.tensor = static_cast<int32_t>(cursor.Varint());
    } else if (tag == (kFirstRow << 3 | kVarint)) {
      frame.head.first_row = static_cast<int64_t>(cursor.Varint());
    } else if (tag == (kType << 3 | kVarint)) {
      frame.head.type = static_cast<int32_t>(cursor.Varint());
    } else if (tag == (kData << 3 | kBytes)) {
      frame.data_bytes = cursor.Varint();
      frame.data_begin = cursor.at();
      cursor.Skip(frame.data_bytes);
    } else {
      cursor.SkipField(tag & 7);
    }
  }
  if (!cursor.ok()) return absl::InvalidArgumentError("the piece is not a TensorPiece message");
  return frame;
}

}  // namespace rondo
