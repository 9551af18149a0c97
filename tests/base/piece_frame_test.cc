// The hand-made frames are protobuf's: each side reads what the other writes, in whatever parts it comes.
#include "base/piece_frame.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "rondo/v1/attention.pb.h"

namespace rondo {
namespace {

using Parts = std::vector<absl::Span<const uint8_t>>;

Parts Cut(const std::string& bytes, std::mt19937_64& random) {
  Parts parts;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min<size_t>(random() % 40, bytes.size() - at);
    parts.emplace_back(reinterpret_cast<const uint8_t*>(bytes.data()) + at, size);
    at += size;
  }
  return parts;
}

v1::TensorPiece RandomPiece(std::mt19937_64& random) {
  v1::TensorPiece piece;
  if (random() % 2 == 0) {
    piece.mutable_job()->set_job_id(std::string(random() % 40, 'j'));
    piece.mutable_job()->set_token(std::string(random() % 40, 't'));
    piece.mutable_job()->set_epoch(random() >> (random() % 64));
  }
  piece.set_tensor(static_cast<v1::Tensor>(random() % 5));
  piece.set_first_row(static_cast<int64_t>(random() >> (random() % 63)));
  piece.set_type(static_cast<v1::ElementType>(random() % 2));
  piece.set_data(std::string(random() % 300, static_cast<char>(random())));
  return piece;
}

TEST(PieceFrame, ProtobufReadsWhatIsWritten) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 1000; ++round) {
    const v1::TensorPiece piece = RandomPiece(random);
    PieceHead head;
    head.has_job = piece.has_job();
    head.job = {piece.job().job_id(), piece.job().token(), piece.job().epoch()};
    head.tensor = piece.tensor();
    head.first_row = piece.first_row();
    head.type = piece.type();
    v1::TensorPiece read;
    ASSERT_TRUE(read.ParseFromString(PieceFramePrefix(head, piece.data().size()) + piece.data()));
    EXPECT_EQ(read.SerializeAsString(), piece.SerializeAsString());
    EXPECT_EQ(read.has_job(), piece.has_job());
  }
}

TEST(PieceFrame, ReadsWhatProtobufWritesInAnyParts) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 1000; ++round) {
    const v1::TensorPiece piece = RandomPiece(random);
    // Fields twice (the last counts) and fields of a later version.
    std::string bytes = RandomPiece(random).SerializeAsString();
    if (!piece.has_job()) bytes.clear();
    bytes += piece.SerializeAsString() + std::string(
                                             "\x78\x81\x01\x82\x01\x03"
                                             "abc",
                                             9);
    const auto frame = ParsePieceFrame(Cut(bytes, random));
    ASSERT_TRUE(frame.ok()) << frame.status();
    v1::TensorPiece wanted;
    ASSERT_TRUE(wanted.ParseFromString(bytes));
    EXPECT_EQ(frame->head.has_job, wanted.has_job());
    EXPECT_EQ(frame->head.job.job_id, wanted.job().job_id());
    EXPECT_EQ(frame->head.job.token, wanted.job().token());
    EXPECT_EQ(frame->head.job.epoch, wanted.job().epoch());
    EXPECT_EQ(frame->head.tensor, wanted.tensor());
    EXPECT_EQ(frame->head.first_row, wanted.first_row());
    EXPECT_EQ(frame->head.type, wanted.type());
    EXPECT_EQ(bytes.substr(frame->data_begin, frame->data_bytes), wanted.data());
  }
}

TEST(PieceFrame, DamageIsAnErrorOrAFrameInsideTheMessage) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = RandomPiece(random).SerializeAsString();
    if (bytes.empty()) continue;
    if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    for (uint64_t n = random() % 4; n > 0 && !bytes.empty(); --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto frame = ParsePieceFrame(Cut(bytes, random));
    if (!frame.ok()) continue;
    ASSERT_LE(frame->data_begin, bytes.size());
    ASSERT_LE(frame->data_bytes, bytes.size() - frame->data_begin);
  }
  const std::string lie("\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);  // data of 2^64 - 1 bytes
  EXPECT_FALSE(ParsePieceFrame(Cut(lie, random)).ok());
}

TEST(Half, EveryValue) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
  EXPECT_TRUE(std::isinf(HalfToFloat(0x7c00)));
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e00)));
#ifdef __FLT16_MANT_DIG__
  for (uint32_t h = 0; h < 65536; ++h) {  // the compiler's own conversion, where it has the type
    const float wanted = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(h)));
    if (!std::isnan(wanted)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(HalfToFloat(h)), std::bit_cast<uint32_t>(wanted)) << h;
    }
  }
#endif
}

}  // namespace
}  // namespace rondo
