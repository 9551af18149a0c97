// A job that asks for the float64 reference decoder: rank 0 runs it alone, in one go, so that users can see how far the
// cluster's arithmetic is from exact. Slow by nature.
#pragma once

#include <atomic>

#include "worker/session/command.h"
#include "worker/session/report.h"
#include "worker/session/worker_context.h"

namespace rondo {

// Reports like any other job: logits (rounded to float32), tokens, the end. Greedy where no tokens are forced.
void RunReferenceJob(const WorkerContext& context, const StartJob& start, const std::atomic<bool>& cancelled,
                     ReportSink& sink);

}  // namespace rondo
