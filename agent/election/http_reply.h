// The answer to one HTTP/1.1 request, as it arrives: status, headers, and a body that is sized or chunked.
// Pure.
//
// Only for our own requests to etcd's JSON gateway: no compression, no redirects, no trailers kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "store/base/bytes.h"
#include "store/base/result.h"

namespace dlaunch::agent {

class HttpReply {
 public:
  // More than an answer in an election needs; a longer one is refused.
  static constexpr std::size_t max_head = 16 * 1024;
  static constexpr std::size_t max_body = 1 << 20;

  // After an error the rest of the stream means nothing.
  Result<void> append(ByteSpan bytes);

  [[nodiscard]] bool has_head() const { return part_ != Part::head; }
  [[nodiscard]] bool complete() const { return part_ == Part::end; }
  // After has_head().
  [[nodiscard]] int status() const { return status_; }
  // The part of the body that has come since the last call.
  std::string take_body() { return std::exchange(body_, {}); }

 private:
  enum class Part { head, sized, chunk_size, chunk, chunk_end, trailer, end };

  bool read_some(Result<void>& result);
  bool take_line(std::string& line);
  Result<void> read_head();
  Result<void> read_chunk_size(const std::string& line);

  Part part_ = Part::head;
  std::string waiting_;  // not parsed yet
  std::string body_;
  int status_ = 0;
  std::uint64_t left_ = 0;  // of the body, or of the chunk
};

}  // namespace dlaunch::agent
