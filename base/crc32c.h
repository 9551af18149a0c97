// CRC32C (Castagnoli), as in iSCSI (RFC 3720): guards the journal's records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rondo {

// Continues a CRC over `size` more bytes; start with 0.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);

inline uint32_t Crc32c(std::string_view bytes) { return ExtendCrc32c(0, bytes.data(), bytes.size()); }

}  // namespace rondo
