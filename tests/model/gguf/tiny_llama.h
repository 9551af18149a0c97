// A llama of two layers small enough to write by hand, for tests of the loader: right by default, wrong on request.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/testing/gguf_writer.h"
#include "tests/testing/test_data.h"

namespace rondo {

struct TinyTensor {
  std::vector<uint64_t> dims;
  WeightType type = WeightType::kF32;
};

// What a test changes before the file is written.
struct TinyLlama {
  std::map<std::string, uint32_t> numbers = {{"llama.block_count", 2},          {"llama.context_length", 128},
                                             {"llama.embedding_length", 64},    {"llama.feed_forward_length", 96},
                                             {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2},
                                             {"llama.rope.dimension_count", 16}};
  std::map<std::string, float> floats = {{"llama.attention.layer_norm_rms_epsilon", 1e-5f},
                                         {"llama.rope.freq_base", 10000}};
  std::map<std::string, std::string> texts = {{"general.architecture", "llama"}, {"general.name", "tiny"}};
  std::map<std::string, TinyTensor> tensors;
  std::map<std::string, std::string> data;  // bytes of a tensor that are not zeros
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};

  TinyLlama() {
    tensors["token_embd.weight"] = {{64, 260}};
    tensors["output_norm.weight"] = {{64}};
    for (const char* layer : {"blk.0.", "blk.1."}) {
      const std::string at = layer;
      tensors[at + "attn_norm.weight"] = {{64}};
      tensors[at + "attn_q.weight"] = {{64, 64}};
      tensors[at + "attn_k.weight"] = {{64, 32}};
      tensors[at + "attn_v.weight"] = {{64, 32}};
      tensors[at + "attn_output.weight"] = {{64, 64}};
      tensors[at + "ffn_norm.weight"] = {{64}};
      tensors[at + "ffn_gate.weight"] = {{64, 96}};
      tensors[at + "ffn_up.weight"] = {{64, 96}};
      tensors[at + "ffn_down.weight"] = {{96, 64}};
    }
  }

  GgufWriter Writer() const {
    GgufWriter writer;
    for (const auto& [key, value] : texts) writer.String(key, value);
    for (const auto& [key, value] : numbers) writer.U32(key, value);
    for (const auto& [key, value] : floats) writer.F32(key, value);
    writer.ByteVocabulary({"t h"}, {"<s>", "</s>", "<pad>"});
    more(writer);
    for (const auto& [name, tensor] : tensors) {
      const WeightTypeInfo& info = *FindWeightType(tensor.type);
      uint64_t elements = 1;
      for (const uint64_t dim : tensor.dims) elements *= dim;
      std::string bytes(elements / static_cast<uint64_t>(info.block_elements) * static_cast<uint64_t>(info.block_bytes),
                        '\0');
      if (const auto own = data.find(name); own != data.end()) bytes = own->second;
      writer.Tensor(name, tensor.dims, tensor.type, bytes);
    }
    return writer;
  }
  // Writes the file into this process' temporary folder and returns its path.
  std::string Write() const {
    static int files = 0;
    const std::string path = TestTempDir() + "/tiny-" + std::to_string(files++) + ".gguf";
    const absl::Status written = Writer().WriteTo(path);
    return written.ok() ? path : "";
  }
};

}  // namespace rondo
