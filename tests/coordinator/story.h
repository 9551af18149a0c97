// Stories: a scheduler's events in, its actions out, as text that people read. Used by scheduler_story_test.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "coordinator/core/scheduler.h"

namespace rondo::coordinator {

// Runs one story line after another against one scheduler. Lines are documented in stories/README.md.
class StoryTeller {
 public:
  // The actions of one input line, one a line.
  std::string Tell(std::string_view line);

 private:
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
  double now_s_ = 0;
  uint64_t arrivals_ = 0;
};

}  // namespace rondo::coordinator
