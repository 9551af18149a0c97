#include "cli/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace rondo::cli {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxDimensions = 32;
constexpr size_t kNamesInMessage = 12;

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

struct Entry {
  std::string name, type;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_type = false, has_shape = false, has_offsets = false;
};

// Bytes of an element of each type that the format knows; 0: unknown. Those we cannot use must be known too, for the
// file's layout is checked as a whole.
int64_t ElementBytesOf(const std::string& type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "I8" || type == "U8" || type == "BOOL" || type == "F8_E4M3" || type == "F8_E5M2") return 1;
  return 0;
}

// Takes the header in as it is parsed: nothing is built that the file does not hold byte for byte, however it is
// nested.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& error() const { return error_; }
  std::vector<Entry>& entries() { return entries_; }

  bool null() override { return Odd("null"); }
  bool boolean(bool) override { return Odd("a bool"); }
  bool number_integer(int64_t) override { return Odd("a negative number"); }
  bool number_float(double, const std::string&) override { return Odd("a fraction"); }
  bool binary(nlohmann::json::binary_t&) override { return Odd("binary"); }
  bool number_unsigned(uint64_t value) override {
    if (depth_ != 2 || !in_array_) return Odd("a number");
    if (field_ == "shape") {
      if (entries_.back().shape.size() == kMaxDimensions) return Fail("has too many dimensions");
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Fail("has a dimension too large");
      entries_.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (entries_.back().offsets.size() == 2) return Fail("has more than two data_offsets");
    entries_.back().offsets.push_back(value);
    return true;
  }
  bool string(std::string& value) override {
    if (metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || in_array_ || field_ != "dtype") return Odd("a string");
    entries_.back().type = value;
    return true;
  }
  bool start_object(size_t) override {
    if (in_array_ || depth_ == 2) return Odd("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2) metadata_ = false;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_array_ || metadata_ || field_ == "dtype") return Odd("an array");
    in_array_ = true;
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) return Tensor(name);
    if (metadata_) return true;
    Entry& entry = entries_.back();
    bool* const seen = name == "dtype"          ? &entry.has_type
                       : name == "shape"        ? &entry.has_shape
                       : name == "data_offsets" ? &entry.has_offsets
                                                : nullptr;
    if (seen == nullptr) return Fail(absl::StrCat("has an unknown field '", name.substr(0, 64), "'"));
    if (*seen) return Fail(absl::StrCat("has ", name, " twice"));
    *seen = true;
    field_ = name;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (error_.empty()) error_ = absl::StrCat("its header is no JSON at byte ", position);
    return false;
  }

 private:
  bool Tensor(const std::string& name) {
    if (!names_.insert(name).second) {
      error_ = absl::StrCat("the name '", name.substr(0, 64), "' is in its header twice");
      return false;
    }
    metadata_ = name == "__metadata__";
    if (!metadata_) entries_.push_back({name, "", {}, {}, false, false, false});
    return true;
  }
  bool Fail(const std::string& what) {
    if (error_.empty()) {
      error_ = entries_.empty() ? absl::StrCat("its header ", what)
                                : absl::StrCat("tensor '", entries_.back().name.substr(0, 64), "' ", what);
    }
    return false;
  }
  bool Odd(const char* what) { return Fail(absl::StrCat("has ", what, " where none belongs")); }

  std::vector<Entry> entries_;
  std::set<std::string> names_;
  std::string error_, field_;
  int depth_ = 0;
  bool in_array_ = false, metadata_ = false;
};

absl::Status CheckEntry(const Entry& entry, uint64_t data_bytes) {
  const std::string name = absl::StrCat("tensor '", entry.name.substr(0, 64), "'");
  if (!entry.has_type || !entry.has_shape || entry.offsets.size() != 2) {
    return Bad(name, " lacks dtype, shape or data_offsets");
  }
  const uint64_t begin = entry.offsets[0], end = entry.offsets[1];
  if (begin > end || end > data_bytes) {
    return Bad(name, ": data_offsets [", begin, ", ", end, "] do not lie in the file's ", data_bytes, " data bytes");
  }
  const int64_t element = ElementBytesOf(entry.type);
  if (element == 0) return Bad(name, " has the unknown type '", entry.type.substr(0, 32), "'");
  int64_t bytes = element;
  bool empty = false;
  for (const int64_t n : entry.shape) {
    empty |= n == 0;
    if (n > 0 && __builtin_mul_overflow(bytes, n, &bytes)) {
      return Bad(name, ": shape ", ShowShape(entry.shape), " has more bytes than a file can");
    }
  }
  if (empty) bytes = 0;
  if (static_cast<uint64_t>(bytes) == end - begin) return absl::OkStatus();
  return Bad(name, ": shape ", ShowShape(entry.shape), " of ", entry.type, " has ", bytes, " bytes, data_offsets give ",
             end - begin);
}

absl::Status CheckLayout(std::vector<Entry>& entries, uint64_t data_bytes) {
  for (const Entry& entry : entries) {
    if (absl::Status status = CheckEntry(entry, data_bytes); !status.ok()) return status;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.offsets[0] != at) {
      return Bad("tensor '", entry.name.substr(0, 64), "' begins at data byte ", entry.offsets[0],
                 entry.offsets[0] < at ? ", inside the one before it, which ends at " : ", the one before it ends at ",
                 at);
    }
    at = entry.offsets[1];
  }
  if (at != data_bytes) return Bad("its tensors have ", at, " bytes, the file has ", data_bytes, " behind its header");
  return absl::OkStatus();
}

absl::Status NoSuchTensor(const std::vector<Entry>& entries, const std::string& name) {
  std::string names;
  for (size_t i = 0; i < std::min(entries.size(), kNamesInMessage); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", entries[i].name.substr(0, 64));
  }
  if (entries.size() > kNamesInMessage) absl::StrAppend(&names, " and ", entries.size() - kNamesInMessage, " more");
  return absl::NotFoundError(absl::StrCat("there is no tensor '", name, "'; there are: ", names));
}

}  // namespace

absl::StatusOr<ArrayHeader> ReadSafetensorsHeader(absl::Span<const uint8_t> file, const std::string& name) {
  if (file.size() < 8) return Bad("it has ", file.size(), " bytes, a .safetensors file at least 8");
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= uint64_t{file[i]} << (8 * i);
  if (length > kMaxHeaderBytes)
    return Bad("its header has ", length, " bytes, at most ", kMaxHeaderBytes, " are allowed");
  if (length > file.size() - 8) return Bad("its header has ", length, " bytes, the file has ", file.size() - 8);
  if (length == 0 || file[8] != '{') return Bad("its header does not begin with {");
  Handler handler;
  const char* const text = reinterpret_cast<const char*>(file.data()) + 8;
  if (!nlohmann::json::sax_parse(text, text + length, &handler)) return Bad(handler.error());
  std::vector<Entry>& entries = handler.entries();
  const uint64_t data_begin = 8 + length;
  if (absl::Status status = CheckLayout(entries, file.size() - data_begin); !status.ok()) return status;
  const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  if (it == entries.end()) return NoSuchTensor(entries, name);
  ArrayHeader header;
  if (it->type == "F32") {
    header.type = FileType::kF32;
  } else if (it->type == "F16") {
    header.type = FileType::kF16;
  } else if (it->type == "BF16") {
    header.type = FileType::kBf16;
  } else if (it->type == "I32") {
    header.type = FileType::kI32;
  } else if (it->type == "I64") {
    header.type = FileType::kI64;
  } else {
    return Bad("tensor '", name, "' has type ", it->type, ", taken are F32, F16, BF16, I32 and I64");
  }
  header.shape = it->shape;
  header.begin = data_begin + it->offsets[0];
  header.bytes = it->offsets[1] - it->offsets[0];
  return header;
}

}  // namespace rondo::cli
