#include "cli/npy_header.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace rondo::cli {
namespace {

constexpr size_t kMaxHeaderBytes = 1 << 20;  // NumPy's own arrays of plain types have 128
constexpr size_t kMaxDimensions = 32;        // NumPy's limit

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The header is a Python dictionary of a string, a bool and a tuple of integers; this reads no more of Python than
// that.
class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  absl::StatusOr<ArrayHeader> Read() {
    if (!Take('{')) return Malformed();
    while (!Take('}')) {
      std::string key;
      if (!String(&key) || !Take(':')) return Malformed();
      if (key == "descr" && !has_type_) {
        // A list would be a structured type.
        if (!String(&descr_)) return Bad("its elements are records, not numbers");
        has_type_ = true;
      } else if (key == "fortran_order" && !has_order_) {
        if (!Bool(&fortran_)) return Malformed();
        has_order_ = true;
      } else if (key == "shape" && !has_shape_) {
        if (!Tuple()) return Malformed();
        has_shape_ = true;
      } else {
        return Malformed();
      }
      if (!Take(',') && Peek() != '}') return Malformed();
    }
    Blank();
    if (at_ != text_.size() || !has_type_ || !has_order_ || !has_shape_) return Malformed();
    return Checked();
  }

 private:
  absl::Status Malformed() const { return Bad("its header is malformed at byte ", at_, " of its text"); }

  absl::StatusOr<ArrayHeader> Checked() {
    ArrayHeader header;
    if (descr_ == "<f4") {
      header.type = FileType::kF32;
    } else if (descr_ == "<f2") {
      header.type = FileType::kF16;
    } else if (descr_ == "<V2" || descr_ == "|V2") {
      header.type = FileType::kBf16;
    } else if (descr_ == "<i4") {
      header.type = FileType::kI32;
    } else if (descr_ == "<i8") {
      header.type = FileType::kI64;
    } else {
      return Bad("its element type '", descr_.substr(0, 32),
                 "' is not one of float32, float16, bfloat16, int32, int64 ",
                 "(little-endian); convert it with numpy: a.astype('<f4')");
    }
    if (fortran_ && std::count_if(shape_.begin(), shape_.end(), [](int64_t n) { return n > 1; }) > 1) {
      return Bad("it is in Fortran order; save it row-major: numpy.save(file, numpy.ascontiguousarray(a))");
    }
    header.shape = shape_;
    return header;
  }

  void Blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char Peek() {
    Blank();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool String(std::string* to) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == absl::string_view::npos) return false;
    *to = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return to->find('\\') == std::string::npos;
  }
  bool Bool(bool* to) {
    Blank();
    for (const absl::string_view word : {absl::string_view("True"), absl::string_view("False")}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      *to = word.size() == 4;
      return true;
    }
    return false;
  }
  bool Number(int64_t* to) {
    if (Peek() < '0' || Peek() > '9') return false;
    *to = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(*to, 10, to) || __builtin_add_overflow(*to, text_[at_] - '0', to)) return false;
    }
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return true;
  }
  bool Tuple() {
    if (!Take('(')) return false;
    while (!Take(')')) {
      int64_t n = 0;
      if (!Number(&n) || shape_.size() == kMaxDimensions) return false;
      shape_.push_back(n);
      if (!Take(',') && Peek() != ')') return false;
    }
    return true;
  }

  absl::string_view text_;
  size_t at_ = 0;
  bool has_type_ = false, has_order_ = false, has_shape_ = false;
  std::string descr_;
  bool fortran_ = false;
  std::vector<int64_t> shape_;
};

}  // namespace

absl::StatusOr<ArrayHeader> ReadNpyHeader(absl::Span<const uint8_t> file) {
  constexpr uint8_t kMagic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (file.size() < 10 || std::memcmp(file.data(), kMagic, sizeof(kMagic)) != 0) {
    return Bad("it does not begin as a .npy file does");
  }
  const int version = file[6];
  if (version < 1 || version > 3) return Bad("its format version is ", version, ", known are 1 to 3");
  const size_t text_begin = version == 1 ? 10 : 12;
  if (file.size() < text_begin) return Bad("it ends in its header");
  uint64_t length = file[8] | file[9] << 8;
  if (version > 1) length |= uint64_t{file[10]} << 16 | uint64_t{file[11]} << 24;
  if (length > kMaxHeaderBytes)
    return Bad("its header has ", length, " bytes, at most ", kMaxHeaderBytes, " are allowed");
  if (length > file.size() - text_begin) return Bad("it ends in its header");
  absl::StatusOr<ArrayHeader> header =
      Reader(absl::string_view(reinterpret_cast<const char*>(file.data()) + text_begin, length)).Read();
  if (!header.ok()) return header.status();
  header->begin = text_begin + length;
  if (!ArrayBytes(header->shape, header->type, &header->bytes)) {
    return Bad("its shape ", ShowShape(header->shape), " has more bytes than a file can");
  }
  if (header->bytes > file.size() - header->begin) {
    return Bad("its shape ", ShowShape(header->shape), " of ", Name(header->type), " needs ", header->bytes,
               " bytes, the file has ", file.size() - header->begin, " behind its header");
  }
  return header;
}

}  // namespace rondo::cli
