// How one record lies in the journal file; used by the writer and the reader, written down in docs/FORMATS.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo::coordinator {

// File: magic, version (4 bytes), CRC32C of those 12 bytes. Then frames. Integers are little-endian.
inline constexpr std::string_view kJournalMagic = "RONDOJNL";
inline constexpr uint32_t kJournalVersion = 1;
inline constexpr size_t kFileHeaderBytes = 16;

// Frame: payload length (4), type (4), CRC32C of those 8 bytes (4), CRC32C of the payload (4), payload. The length has
// a CRC of its own, so a flipped bit in it is not taken for a record that the end of the file cut off.
inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr uint32_t kMaxPayloadBytes = 1u << 30;
inline constexpr uint32_t kFrameTypeRecord = 1;  // rondo.v1.JournalRecord

std::string EncodeFileHeader();
std::string EncodeFrame(std::string_view payload);

struct Frame {
  std::string_view payload;
  size_t size = 0;  // of header and payload
};
// The frame at the start of `bytes`, or nothing if it is cut off or wrong in any bit.
std::optional<Frame> DecodeFrame(std::string_view bytes);

// Whether `bytes` holds a right frame at any offset.
bool AnyFrameIn(std::string_view bytes);

}  // namespace rondo::coordinator
