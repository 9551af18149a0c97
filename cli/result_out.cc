#include "cli/result_out.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/duration.h"
#include "cli/show.h"

namespace rondo::cli {

Json ResultJson(const v1::Finished& r, const std::string& text, const std::vector<int32_t>& tokens) {
  return Json{{"id", r.id()},
              {"text", text},
              {"tokens", tokens},
              {"finish_reason", r.finish_reason()},
              {"prompt_tokens", r.prompt_tokens()},
              {"completion_tokens", r.completion_tokens()},
              {"ttft_us", r.ttft_us()},
              {"prefill_us", r.prefill_us()},
              {"decode_us", r.decode_us()},
              {"prefill_tokens_per_s", r.prefill_tokens_per_s()},
              {"decode_tokens_per_s", r.decode_tokens_per_s()},
              {"workers", r.workers()},
              {"kernels", r.kernels()},
              {"compute", r.compute()},
              {"kv_type", r.kv_type()},
              {"strategy", r.strategy()},
              {"digest", r.digest()},
              {"exchanged_bytes", r.exchanged_bytes()},
              {"kv_bytes_per_worker",
               Json(std::vector<uint64_t>(r.kv_bytes_per_worker().begin(), r.kv_bytes_per_worker().end()))},
              {"restarts", r.restarts()}};
}

std::string ResultSummary(const v1::Finished& r) {
  std::string out = absl::StrCat(
      "prompt   ", ShowCount(r.prompt_tokens()), " tokens, first token after ",
      ShowDuration(absl::Microseconds(r.ttft_us())), ", prefill ", ShowRate(r.prefill_tokens_per_s()), " tokens/s\n",
      "answer   ", ShowCount(r.completion_tokens()), r.completion_tokens() == 1 ? " token" : " tokens", ", decode ",
      ShowRate(r.decode_tokens_per_s()), " tokens/s, ended by ", r.finish_reason(), "\n", "ring     ", r.workers(),
      r.workers() == 1 ? " worker" : " workers", ", ", r.strategy(), ", ", r.kernels(), ", compute ", r.compute(),
      ", KV ", r.kv_type(), ", exchanged ", ShowBytes(r.exchanged_bytes()), "\n", "KV       ",
      absl::StrJoin(r.kv_bytes_per_worker(), ", ",
                    [](std::string* to, uint64_t bytes) { absl::StrAppend(to, ShowBytes(bytes)); }),
      " per worker\n");
  if (r.restarts() > 0) absl::StrAppend(&out, "restarts ", r.restarts(), "\n");
  absl::StrAppend(&out, "digest   ", r.digest());
  return out;
}

}  // namespace rondo::cli
