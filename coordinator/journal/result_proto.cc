#include "coordinator/journal/result_proto.h"

namespace rondo::coordinator {

void ToProto(const std::string& job_id, const JobResult& from, v1::Finished* to) {
  to->set_id(job_id);
  to->set_finish_reason(from.finish_reason);
  to->set_prompt_tokens(from.prompt_tokens);
  to->set_completion_tokens(from.completion_tokens);
  to->set_ttft_us(from.ttft_us);
  to->set_prefill_us(from.prefill_us);
  to->set_decode_us(from.decode_us);
  to->set_prefill_tokens_per_s(from.prefill_tokens_per_s);
  to->set_decode_tokens_per_s(from.decode_tokens_per_s);
  to->set_workers(from.workers);
  to->set_kernels(from.kernels);
  to->set_compute(from.compute);
  to->set_kv_type(from.kv_type);
  to->set_strategy(from.strategy);
  to->set_digest(from.digest);
  to->set_exchanged_bytes(from.exchanged_bytes);
  to->mutable_kv_bytes_per_worker()->Add(from.kv_bytes_per_worker.begin(), from.kv_bytes_per_worker.end());
  to->set_restarts(from.restarts);
}

JobResult FromProto(const v1::Finished& from) {
  JobResult to;
  to.finish_reason = from.finish_reason();
  to.prompt_tokens = from.prompt_tokens();
  to.completion_tokens = from.completion_tokens();
  to.ttft_us = from.ttft_us();
  to.prefill_us = from.prefill_us();
  to.decode_us = from.decode_us();
  to.prefill_tokens_per_s = from.prefill_tokens_per_s();
  to.decode_tokens_per_s = from.decode_tokens_per_s();
  to.workers = from.workers();
  to.kernels = from.kernels();
  to.compute = from.compute();
  to.kv_type = from.kv_type();
  to.strategy = from.strategy();
  to.digest = from.digest();
  to.exchanged_bytes = from.exchanged_bytes();
  to.kv_bytes_per_worker.assign(from.kv_bytes_per_worker().begin(), from.kv_bytes_per_worker().end());
  to.restarts = from.restarts();
  return to;
}

void ToProto(const SamplingSettings& from, v1::Sampling* to) {
  to->set_temperature(from.temperature);
  to->set_top_k(from.top_k);
  to->set_top_p(from.top_p);
  to->set_min_p(from.min_p);
  to->set_seed(from.seed);
}

SamplingSettings FromProto(const v1::Sampling& from) {
  return {from.temperature(), from.top_k(), from.top_p(), from.min_p(), from.seed()};
}

}  // namespace rondo::coordinator
