// rondo tokenize, rondo detokenize: text to ids and back with the tokenizer of a GGUF file; no coordinator needed.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/input.h"
#include "cli/json_out.h"
#include "model/gguf/gguf_file.h"
#include "model/tokenizer/tokenizer.h"

namespace rondo::cli {
namespace {

struct Options {
  std::string model;
  std::string file = "-";
  bool no_special = false;
  bool json = false;
};

absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const std::string& model) {
  const absl::StatusOr<std::shared_ptr<const GgufFile>> file = GgufFile::Open(model);
  if (!file.ok()) return file.status();
  return Tokenizer::FromGguf(**file);
}

// A bad model file is a failure, not a wrong use of the command, whatever its status code.
ExitCode FailModel(const absl::Status& status) {
  return Fail(kFailure, StdSv(status.message()), "name a GGUF file with a byte-level BPE vocabulary with --model");
}

int RunTokenize(const Options& o) {
  const auto tokenizer = LoadTokenizer(o.model);
  if (!tokenizer.ok()) return FailModel(tokenizer.status());
  const absl::StatusOr<std::string> text = ReadInput(o.file);
  if (!text.ok()) return FailStatus(text.status(), "");
  const std::vector<int32_t> ids = (*tokenizer)->Encode(*text, !o.no_special);
  if (o.json) return PrintJson(Json{{"ids", ids}, {"count", ids.size()}}) ? kOk : kFailure;
  std::string line;
  for (const int32_t id : ids) absl::StrAppend(&line, line.empty() ? "" : " ", id);
  std::printf("%s\n", line.c_str());
  return std::fflush(stdout) == 0 ? kOk : kFailure;
}

absl::StatusOr<std::vector<int32_t>> ParseIds(std::string_view text, int32_t vocab_size) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  for (;;) {
    while (at != end && absl::ascii_isspace(static_cast<unsigned char>(*at))) ++at;
    if (at == end) return ids;
    int32_t id = -1;
    const auto [next, error] = std::from_chars(at, end, id);
    const char* word_end = at;
    while (word_end != end && !absl::ascii_isspace(static_cast<unsigned char>(*word_end))) ++word_end;
    if (error != std::errc() || next != word_end || id < 0 || id >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat("id ", ids.size(), " is '",
                                                     absl::string_view(at, std::min<size_t>(word_end - at, 40)),
                                                     "', not a number from 0 to ", vocab_size - 1));
    }
    ids.push_back(id);
    at = word_end;
  }
}

int RunDetokenize(const Options& o) {
  const auto tokenizer = LoadTokenizer(o.model);
  if (!tokenizer.ok()) return FailModel(tokenizer.status());
  const absl::StatusOr<std::string> text = ReadInput(o.file);
  if (!text.ok()) return FailStatus(text.status(), "");
  const absl::StatusOr<std::vector<int32_t>> ids = ParseIds(*text, (*tokenizer)->vocab_size());
  if (!ids.ok())
    return FailStatus(ids.status(), "give ids in decimal with white space between, as rondo tokenize prints");
  std::string out;
  for (const int32_t id : *ids) {
    // A control token has no bytes in an answer; here people want to see it.
    const std::string_view bytes = (*tokenizer)->TokenBytes(id);
    out += bytes.empty() && !o.no_special ? (*tokenizer)->TokenText(id) : bytes;
  }
  if (o.json) return PrintJson(Json{{"text", out}, {"count", ids->size()}}) ? kOk : kFailure;
  // Exactly the bytes, without a newline of ours: the way back gives the file that came in.
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0 ? kOk : kFailure;
}

void AddOptions(CLI::App* command, Options* o) {
  command->add_option("--model", o->model, "GGUF file; one with a vocabulary alone will do")
      ->type_name("FILE")
      ->required();
  command->add_option("--file", o->file, "What to read; - is standard input")->type_name("FILE")->capture_default_str();
  command->add_flag("--json", o->json, "Print one JSON object");
}

}  // namespace

void AddTokenizeCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokenize",
                                         "Turn text into token ids\n\n"
                                         "Examples:\n"
                                         "  echo -n 'Hello world' | rondo tokenize --model M.gguf\n"
                                         "  rondo tokenize --model M.gguf --file book.txt --json");
  AddOptions(command, o.get());
  command->add_flag("--no-special", o->no_special, "Leave out the BOS and EOS ids that the model wants added");
  command->callback([o, run] { *run = [o] { return RunTokenize(*o); }; });
}

void AddDetokenizeCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("detokenize",
                                         "Turn token ids into text\n\n"
                                         "Examples:\n"
                                         "  echo 19556 905 | rondo detokenize --model M.gguf\n"
                                         "  rondo tokenize --model M.gguf --file book.txt > ids.txt\n"
                                         "  rondo detokenize --model M.gguf --file ids.txt > copy.txt");
  AddOptions(command, o.get());
  command->add_flag("--no-special", o->no_special, "Leave control tokens out, as an answer does");
  command->callback([o, run] { *run = [o] { return RunDetokenize(*o); }; });
}

}  // namespace rondo::cli
