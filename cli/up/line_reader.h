// Reads a child's pipe on the event loop and hands out whole lines.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "boost/asio/io_context.hpp"
#include "boost/asio/posix/stream_descriptor.hpp"

namespace rondo::cli {

// Kept alive by the read it has pending. Closes the descriptor when the other end does, or when Close is called.
class LineReader : public std::enable_shared_from_this<LineReader> {
 public:
  // Owns fd. With echo >= 0 every byte is also written there as it arrives.
  LineReader(boost::asio::io_context& io, int fd, int echo, std::function<void(std::string_view)> on_line)
      : stream_(io, fd), echo_(echo), on_line_(std::move(on_line)) {}

  void Start();

  // No more copying.
  void Mute() { echo_ = -1; }

  // Takes what is in the pipe now and stops: called when the child is gone, whoever else holds the pipe.
  void DrainAndClose();

 private:
  void Take(size_t n);

  boost::asio::posix::stream_descriptor stream_;
  int echo_;
  std::function<void(std::string_view)> on_line_;
  std::array<char, 4096> buffer_;
  std::string partial_;
};

}  // namespace rondo::cli
