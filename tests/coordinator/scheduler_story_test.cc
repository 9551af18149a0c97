// Every rule of the scheduler as a story: tests/coordinator/stories/*.txt. RONDO_REWRITE_STORIES=1 writes the actions
// that the scheduler takes now into the stories, to be read before they are believed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/coordinator/story.h"

namespace rondo::coordinator {
namespace {

std::vector<std::string> Stories() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(RONDO_SOURCE_DIR "/tests/coordinator/stories")) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Story : public testing::TestWithParam<std::string> {};

// A story is blocks: input lines, a line "----", the actions, an empty line. "#" lines are for the reader.
std::string Retell(const std::string& story) {
  StoryTeller teller;
  std::istringstream in(story);
  std::string out, actions, line;
  bool expected = false;
  while (std::getline(in, line)) {
    if (expected && !line.empty()) continue;
    if (expected) out += actions;
    if (expected) actions.clear();
    expected = line == "----";
    out += line + "\n";
    if (!expected && !line.empty() && line[0] != '#') actions += teller.Tell(line);
  }
  if (expected) out += actions;
  return out;
}

TEST_P(Story, IsTrue) {
  const std::string path = std::string(RONDO_SOURCE_DIR "/tests/coordinator/stories/") + GetParam() + ".txt";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string told = Retell(text.str());
  if (std::getenv("RONDO_REWRITE_STORIES") != nullptr) {
    std::ofstream(path) << told;
  } else {
    EXPECT_EQ(told, text.str());  // GoogleTest prints a line diff
  }
}

INSTANTIATE_TEST_SUITE_P(Scheduler, Story, testing::ValuesIn(Stories()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rondo::coordinator
