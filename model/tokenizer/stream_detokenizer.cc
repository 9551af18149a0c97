#include "model/tokenizer/stream_detokenizer.h"

#include <algorithm>

#include "model/tokenizer/utf8.h"

namespace rondo {
namespace {

// Bytes at the end of `text` that may be the beginning of a character.
size_t UnfinishedCharacter(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const Utf8Step step = NextUtf8(text.substr(text.size() - back));
    if (step.kind == Utf8Kind::kIncomplete && step.bytes == back) return back;
  }
  return 0;
}

}  // namespace

StreamDetokenizer::StreamDetokenizer(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(tokenizer), stops_(std::move(stops)) {
  stops_.erase(std::remove(stops_.begin(), stops_.end(), std::string()), stops_.end());
}

bool StreamDetokenizer::FindStop(size_t* begin) const {
  size_t best_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end < best_end || (end == best_end && at < *begin)) {
      best_end = end;
      *begin = at;
    }
  }
  return best_end != std::string::npos;
}

// Bytes at the end of held_ that may be the beginning of a stop string.
size_t StreamDetokenizer::StopTail() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t bytes = std::min(stop.size() - 1, held_.size()); bytes > longest; --bytes) {
      if (held_.compare(held_.size() - bytes, bytes, stop, 0, bytes) == 0) longest = bytes;
    }
  }
  return longest;
}

std::string StreamDetokenizer::Push(int32_t id) {
  std::string shown;
  if (stopped_) return shown;
  held_ += tokenizer_.TokenBytes(id);
  size_t stop_begin = 0;
  if (FindStop(&stop_begin)) {
    stopped_ = true;
    AppendAsUtf8(std::string_view(held_).substr(0, stop_begin), &shown);
    held_.clear();
    return shown;
  }
  std::string_view ready = std::string_view(held_).substr(0, held_.size() - StopTail());
  ready.remove_suffix(UnfinishedCharacter(ready));
  AppendAsUtf8(ready, &shown);
  held_.erase(0, ready.size());
  return shown;
}

std::string StreamDetokenizer::Flush() {
  std::string shown;
  AppendAsUtf8(held_, &shown);
  held_.clear();
  return shown;
}

}  // namespace rondo
