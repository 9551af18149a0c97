// SHA-256 over a stream of bytes: model fingerprints and logit digests.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/types/span.h"

namespace rondo {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(absl::Span<const std::byte> bytes);
  void Update(const void* data, size_t size) { Update({static_cast<const std::byte*>(data), size}); }

  // Lower-case hex of everything so far; more may follow.
  std::string HexDigest() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace rondo
