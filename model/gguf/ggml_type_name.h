// Names of the tensor types that exist in GGUF files, read or not; for error messages.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace rondo {

// Empty for a number that is no type. Numbers as in ggml.h; the removed ones keep the names they had.
inline std::string_view GgmlTypeName(uint32_t type) {
  constexpr std::string_view kNames[] = {"F32",
                                         "F16",
                                         "Q4_0",
                                         "Q4_1",
                                         "Q4_2 (removed)",
                                         "Q4_3 (removed)",
                                         "Q5_0",
                                         "Q5_1",
                                         "Q8_0",
                                         "Q8_1",
                                         "Q2_K",
                                         "Q3_K",
                                         "Q4_K",
                                         "Q5_K",
                                         "Q6_K",
                                         "Q8_K",
                                         "IQ2_XXS",
                                         "IQ2_XS",
                                         "IQ3_XXS",
                                         "IQ1_S",
                                         "IQ4_NL",
                                         "IQ3_S",
                                         "IQ2_S",
                                         "IQ4_XS",
                                         "I8",
                                         "I16",
                                         "I32",
                                         "I64",
                                         "F64",
                                         "IQ1_M",
                                         "BF16",
                                         "Q4_0_4_4 (removed)",
                                         "Q4_0_4_8 (removed)",
                                         "Q4_0_8_8 (removed)",
                                         "TQ1_0",
                                         "TQ2_0",
                                         "IQ4_NL_4_4 (removed)",
                                         "IQ4_NL_4_8 (removed)",
                                         "IQ4_NL_8_8 (removed)",
                                         "MXFP4"};
  return type < std::size(kNames) ? kNames[type] : std::string_view();
}

}  // namespace rondo
