// Job results and sampling settings between plain values and protos; the journal and the services share them.
#pragma once

#include <string>

#include "coordinator/core/job.h"
#include "rondo/v1/inference.pb.h"

namespace rondo::coordinator {

void ToProto(const std::string& job_id, const JobResult& from, v1::Finished* to);
JobResult FromProto(const v1::Finished& from);
void ToProto(const SamplingSettings& from, v1::Sampling* to);
SamplingSettings FromProto(const v1::Sampling& from);

}  // namespace rondo::coordinator
