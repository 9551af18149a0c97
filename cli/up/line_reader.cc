#include "cli/up/line_reader.h"

#include <unistd.h>

#include "boost/asio/buffer.hpp"

namespace rondo::cli {

void LineReader::Start() {
  stream_.async_read_some(boost::asio::buffer(buffer_),
                          [self = shared_from_this()](const boost::system::error_code& error, size_t n) {
                            if (error) return;
                            self->Take(n);
                            self->Start();
                          });
}

void LineReader::DrainAndClose() {
  boost::system::error_code error;
  stream_.non_blocking(true, error);
  while (!error) {
    const size_t n = stream_.read_some(boost::asio::buffer(buffer_), error);
    if (!error) Take(n);
  }
  stream_.close(error);
}

void LineReader::Take(size_t n) {
  if (echo_ >= 0) {
    // Our own stderr may be closed; the child's words then have nowhere to go.
    [[maybe_unused]] const ssize_t written = write(echo_, buffer_.data(), n);
  }
  partial_.append(buffer_.data(), n);
  size_t begin = 0;
  for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    on_line_(std::string_view(partial_).substr(begin, end - begin));
  }
  partial_.erase(0, begin);
}

}  // namespace rondo::cli
