#include "agent/election/http_reply.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "store/base/header_text.h"

namespace dlaunch::agent {
namespace {

Error malformed_http(std::string why) {
  return {ErrorKind::invalid, "the HTTP answer cannot be read", "", std::move(why), ""};
}

bool read_number(std::string_view text, int base, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

Result<void> HttpReply::append(ByteSpan bytes) {
  waiting_.append(as_text(bytes));
  Result<void> result;
  while (result && read_some(result)) {
  }
  if (result && body_.size() > max_body) return malformed_http("it is too long");
  if (result && part_ != Part::sized && part_ != Part::chunk && waiting_.size() > max_head &&
      part_ != Part::end)
    return malformed_http("a line of it is too long");
  return result;
}

// False: more bytes are needed, or there is nothing more to read.
bool HttpReply::read_some(Result<void>& result) {
  std::string line;
  switch (part_) {
    case Part::head:
      if (waiting_.find("\r\n\r\n") == std::string::npos) return false;
      result = read_head();
      return true;
    case Part::sized:
    case Part::chunk: {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, waiting_.size()));
      body_.append(waiting_, 0, size);
      waiting_.erase(0, size);
      left_ -= size;
      if (left_ > 0) return false;
      part_ = part_ == Part::sized ? Part::end : Part::chunk_end;
      return true;
    }
    case Part::chunk_size:
      if (!take_line(line)) return false;
      result = read_chunk_size(line);
      return true;
    case Part::chunk_end:
      if (!take_line(line)) return false;
      if (!line.empty()) result = malformed_http("a chunk is longer than it said");
      part_ = Part::chunk_size;
      return true;
    case Part::trailer:
      if (!take_line(line)) return false;
      if (line.empty()) part_ = Part::end;
      return true;
    case Part::end:
      return false;
  }
  return false;
}

bool HttpReply::take_line(std::string& line) {
  const std::size_t end = waiting_.find("\r\n");
  if (end == std::string::npos) return false;
  line = waiting_.substr(0, end);
  waiting_.erase(0, end + 2);
  return true;
}

Result<void> HttpReply::read_head() {
  std::string line;
  take_line(line);
  constexpr std::string_view version = "HTTP/1.";
  std::uint64_t code = 0;
  if (!line.starts_with(version) || line.size() < 12 || !read_number(line.substr(9, 3), 10, code))
    return malformed_http("it does not begin with HTTP/1");
  status_ = static_cast<int>(code);
  part_ = Part::end;  // unless a header announces a body
  while (take_line(line) && !line.empty()) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return malformed_http("a header has no name");
    const std::string name = lower_case(line.substr(0, colon));
    const std::string value = lower_case(trimmed(std::string_view(line).substr(colon + 1)));
    if (name == "transfer-encoding" && value == "chunked") {
      part_ = Part::chunk_size;
    } else if (name == "content-length" && part_ != Part::chunk_size) {
      if (!read_number(value, 10, left_) || left_ > max_body)
        return malformed_http("its length is not a number, or too large");
      part_ = left_ > 0 ? Part::sized : Part::end;
    }
  }
  return {};
}

Result<void> HttpReply::read_chunk_size(const std::string& line) {
  const std::string_view size = trimmed(std::string_view(line).substr(0, line.find(';')));
  if (!read_number(size, 16, left_) || left_ > max_body)
    return malformed_http("a chunk's length is not a number, or too large");
  part_ = left_ > 0 ? Part::chunk : Part::trailer;
  return {};
}

}  // namespace dlaunch::agent
