// How --help looks: the first line of a description in the list of commands, all of it, examples first, in its own
// help.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace rondo::cli {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() { column_width(34); }

  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string text = sub->get_description();
    std::string out = "  " + sub->get_name();
    out.resize(out.size() < 16 ? 16 : out.size() + 2, ' ');
    return out + text.substr(0, text.find('\n')) + "\n";
  }
};

}  // namespace rondo::cli
