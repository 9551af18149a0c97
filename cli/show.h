// Numbers as people read them, shared by the summaries and tables of every command.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::cli {

// "model NAME", or that there is none.
std::string ShowModel(std::string_view name);
std::string ShowCount(uint64_t n);      // 5,752
std::string ShowBytes(uint64_t bytes);  // 512 B, 25.5 KiB, 1.4 GiB
std::string ShowRate(double per_s);     // 612, 24.1, 3.07: three figures
std::string ShowWorkers(uint64_t n);    // 1 worker, 4 workers

// Rows of cells with the columns aligned left and two blanks between them; the first row is the head.
std::string ShowTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace rondo::cli
