#include "cli/tensor_view.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rondo::cli {

std::string ShowShape(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

bool ArrayBytes(const std::vector<int64_t>& shape, FileType type, uint64_t* bytes) {
  // A zero anywhere makes the array empty, but not the other numbers sensible.
  int64_t product = ElementBytes(type);
  bool empty = false;
  for (const int64_t n : shape) {
    if (n < 0) return false;
    empty |= n == 0;
    if (n > 0 && __builtin_mul_overflow(product, n, &product)) return false;
  }
  *bytes = empty ? 0 : static_cast<uint64_t>(product);
  return true;
}

}  // namespace rondo::cli
