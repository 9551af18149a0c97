// HOST:PORT as people give it on a command line; used by the programs that listen or dial.
#pragma once

#include <string>

namespace rondo {

// What is wrong with `address`, or "". A host, a colon, a port from 0 to 65535; an IPv6 host stands in brackets.
std::string CheckAddress(const std::string& address);

}  // namespace rondo
