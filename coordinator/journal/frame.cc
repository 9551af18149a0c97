#include "coordinator/journal/frame.h"

#include "base/crc32c.h"

namespace rondo::coordinator {
namespace {

void PutU32(std::string* out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift & 0xff));
}

uint32_t GetU32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace

std::string EncodeFileHeader() {
  std::string header(kJournalMagic);
  PutU32(&header, kJournalVersion);
  PutU32(&header, Crc32c(header));
  return header;
}

std::string EncodeFrame(std::string_view payload) {
  std::string frame;
  frame.reserve(kFrameHeaderBytes + payload.size());
  PutU32(&frame, static_cast<uint32_t>(payload.size()));
  PutU32(&frame, kFrameTypeRecord);
  PutU32(&frame, Crc32c(frame));
  PutU32(&frame, Crc32c(payload));
  frame.append(payload);
  return frame;
}

std::optional<Frame> DecodeFrame(std::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes) return std::nullopt;
  const uint32_t length = GetU32(bytes, 0);
  if (length > kMaxPayloadBytes || GetU32(bytes, 4) != kFrameTypeRecord) return std::nullopt;
  if (GetU32(bytes, 8) != Crc32c(bytes.substr(0, 8))) return std::nullopt;
  if (bytes.size() - kFrameHeaderBytes < length) return std::nullopt;
  const std::string_view payload = bytes.substr(kFrameHeaderBytes, length);
  if (GetU32(bytes, 12) != Crc32c(payload)) return std::nullopt;
  return Frame{payload, kFrameHeaderBytes + length};
}

bool AnyFrameIn(std::string_view bytes) {
  for (size_t at = 0; at + kFrameHeaderBytes <= bytes.size(); ++at) {
    if (DecodeFrame(bytes.substr(at)).has_value()) return true;
  }
  return false;
}

}  // namespace rondo::coordinator
