#include "cli/attend_tensors.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/bf16.h"
#include "base/half.h"
#include "base/text.h"
#include "cli/visible_keys.h"
#include "proto/attention_spec.h"

namespace rondo::cli {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

bool IsFloat(FileType type) { return type == FileType::kF32 || type == FileType::kF16 || type == FileType::kBf16; }

absl::StatusOr<std::shared_ptr<const TensorFile>> OpenTensor(const char* option, const std::string& source) {
  absl::StatusOr<std::shared_ptr<const TensorFile>> file = TensorFile::Open(source);
  if (!file.ok()) return absl::Status(file.status().code(), absl::StrCat(option, ": ", file.status().message()));
  if ((*file)->shape().size() != 3) {
    return Invalid(option, ": ", source, " has shape ", ShowShape((*file)->shape()), ", [tokens, heads, head_dim] is ",
                   "needed");
  }
  if (!IsFloat((*file)->type())) {
    return Invalid(option, ": ", source, " has elements of type ", Name((*file)->type()),
                   ", float32, float16 or bfloat16 is needed");
  }
  return file;
}

absl::Status CheckShapes(const TensorFile& q, const TensorFile& k, const TensorFile& v) {
  if (k.shape()[0] != v.shape()[0]) {
    return Invalid("--v: ", v.shape()[0], " tokens, --k has ", k.shape()[0]);
  }
  if (k.shape() != v.shape()) {
    return Invalid("--v: shape ", ShowShape(v.shape()), ", that of --k is ", ShowShape(k.shape()));
  }
  if (k.type() != v.type()) return Invalid("--v: type ", Name(v.type()), ", that of --k is ", Name(k.type()));
  if (q.shape()[2] != k.shape()[2]) {
    return Invalid("--q: head_dim ", q.shape()[2], ", that of --k is ", k.shape()[2]);
  }
  for (const TensorFile* file : {&q, &k}) {
    for (int d = 1; d < 3; ++d) {
      const int64_t most = d == 1 ? kMaxAttentionHeads : kMaxAttentionHeadDim;
      if (file->shape()[d] < 1 || file->shape()[d] > most) {
        return Invalid(file == &q ? "--q: " : "--k: ", d == 1 ? "heads " : "head_dim ", file->shape()[d],
                       " is not in 1..", most);
      }
    }
  }
  if (q.shape()[1] % k.shape()[1] != 0) {
    return Invalid("--q: ", q.shape()[1], " heads are not a multiple of the ", k.shape()[1], " heads of --k");
  }
  return absl::OkStatus();
}

template <typename T>
T Load(const TensorFile& file, int64_t i) {
  T value;
  std::memcpy(&value, file.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Numbers separated by commas, or a file of one dimension.
absl::StatusOr<std::vector<double>> ReadNumbers(const char* option, const std::string& source) {
  std::vector<double> numbers;
  bool plain = true;
  for (const absl::string_view word : absl::StrSplit(source, ',')) {
    double number = 0;
    if (!absl::SimpleAtod(word, &number)) plain = false;
    numbers.push_back(number);
  }
  if (plain) return numbers;
  absl::StatusOr<std::shared_ptr<const TensorFile>> file = TensorFile::Open(source);
  if (!file.ok()) return absl::Status(file.status().code(), absl::StrCat(option, ": ", file.status().message()));
  const TensorFile& f = **file;
  if (f.shape().size() != 1)
    return Invalid(option, ": ", source, " has shape ", ShowShape(f.shape()), ", one dimension is needed");
  numbers.assign(f.shape()[0], 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = f.type() == FileType::kI32   ? Load<int32_t>(f, i)
                 : f.type() == FileType::kI64 ? static_cast<double>(Load<int64_t>(f, i))
                                              : LoadElement(f, i);
  }
  return numbers;
}

absl::Status AddNumbers(const char* option, const std::string& source, google::protobuf::RepeatedField<float>* to) {
  if (source.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<double>> numbers = ReadNumbers(option, source);
  if (!numbers.ok()) return numbers.status();
  for (const double number : *numbers) to->Add(static_cast<float>(number));
  return absl::OkStatus();
}

absl::Status AddStarts(const std::string& source, v1::AttentionSpec* to) {
  if (source.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<double>> numbers = ReadNumbers("--cu-seqlens", source);
  if (!numbers.ok()) return numbers.status();
  for (size_t i = 0; i < numbers->size(); ++i) {
    const double number = (*numbers)[i];
    if (number != std::floor(number) || std::abs(number) > 0x1p53) {
      return Invalid("--cu-seqlens: number ", i, " is ", number, ", whole numbers are needed");
    }
    to->add_sequence_starts(static_cast<int64_t>(number));
  }
  return absl::OkStatus();
}

absl::Status Finite(const AttendTensors& t, v1::Tensor tensor, int64_t begin, int64_t end) {
  const TensorFile& file = t.Of(tensor);
  const int64_t row = t.RowElements(tensor);
  for (int64_t i = begin * row; i < end * row; ++i) {
    const float value = LoadElement(file, i);
    if (std::isfinite(value)) continue;
    return Invalid(tensor == v1::Q   ? "--q"
                   : tensor == v1::K ? "--k"
                                     : "--v",
                   ": row ", i / row, " head ", i % row / t.spec.shape.head_dim, " element ", i % t.spec.shape.head_dim,
                   " is ", value, ", and a query sees it");
  }
  return absl::OkStatus();
}

}  // namespace

float LoadElement(const TensorFile& file, int64_t i) {
  switch (file.type()) {
    case FileType::kF16:
      return HalfToFloat(Load<uint16_t>(file, i));
    case FileType::kBf16:
      return Bf16ToFloat(Load<uint16_t>(file, i));
    default:
      return Load<float>(file, i);
  }
}

absl::StatusOr<AttendTensors> LoadAttendTensors(const AttendOptions& o) {
  AttendTensors t;
  absl::StatusOr<std::shared_ptr<const TensorFile>> q = OpenTensor("--q", o.q);
  if (!q.ok()) return q.status();
  absl::StatusOr<std::shared_ptr<const TensorFile>> k = OpenTensor("--k", o.k);
  if (!k.ok()) return k.status();
  absl::StatusOr<std::shared_ptr<const TensorFile>> v = OpenTensor("--v", o.v);
  if (!v.ok()) return v.status();
  if (absl::Status status = CheckShapes(**q, **k, **v); !status.ok()) return status;
  t.q = *std::move(q);
  t.k = *std::move(k);
  t.v = *std::move(v);
  v1::AttentionSpec& m = t.message;
  m.set_q_tokens(t.q->shape()[0]);
  m.set_kv_tokens(t.k->shape()[0]);
  m.set_q_heads(static_cast<int32_t>(t.q->shape()[1]));
  m.set_kv_heads(static_cast<int32_t>(t.k->shape()[1]));
  m.set_head_dim(static_cast<int32_t>(t.q->shape()[2]));
  const bool bf16 = o.dtype.empty() ? t.k->type() == FileType::kBf16 : o.dtype == "bf16";
  m.set_kv_type(bf16 ? v1::BF16 : v1::F32);
  if (o.scale != 0) m.set_scale(o.scale);
  m.set_causal(o.causal);
  m.set_window(o.window);
  m.set_softcap(o.softcap);
  absl::Status status = AddNumbers("--sinks", o.sinks, m.mutable_sinks());
  status.Update(AddNumbers("--alibi", o.alibi, m.mutable_alibi_slopes()));
  status.Update(AddStarts(o.cu_seqlens, &m));
  if (!status.ok()) return status;
  m.set_ring_size(o.workers);
  const std::optional<RingStrategy> strategy = ParseRingStrategy(o.strategy);
  if (!strategy) return Invalid("--strategy: '", o.strategy, "' is not auto, pass-kv or pass-q");
  m.set_strategy(static_cast<v1::Strategy>(*strategy));
  m.set_want_lse(o.lse);
  absl::StatusOr<AttentionJobSpec> spec = rondo::FromProto(m);
  if (!spec.ok()) return spec.status();
  t.spec = *std::move(spec);
  return t;
}

absl::Status CheckFinite(const AttendTensors& t) {
  // Keys that any query sees, as one pass over the queries: what they see never moves backwards.
  int64_t checked = 0;
  for (int64_t i = 0; i < t.spec.q_tokens; ++i) {
    const PositionRun keys = VisibleKeysOf(t.spec, i);
    if (keys.size() <= 0) continue;
    if (absl::Status status = Finite(t, v1::Q, i, i + 1); !status.ok()) return status;
    const int64_t begin = std::max(keys.begin, checked);
    for (const v1::Tensor tensor : {v1::K, v1::V}) {
      if (absl::Status status = Finite(t, tensor, begin, std::max(begin, keys.end)); !status.ok()) return status;
    }
    checked = std::max(checked, keys.end);
  }
  return absl::OkStatus();
}

}  // namespace rondo::cli
