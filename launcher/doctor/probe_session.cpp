#include "launcher/doctor/probe_session.h"

#include <algorithm>

#include "store/base/bytes.h"

namespace dlaunch::launcher {

std::string ProbeSession::take(std::string_view bytes, std::int64_t now_unix_ns) {
  std::string answers;
  while (!bad_) {
    if (in_request_) {
      const auto dropped = static_cast<std::size_t>(std::min<std::uint64_t>(to_drop_, bytes.size()));
      bytes.remove_prefix(dropped);
      to_drop_ -= dropped;
      if (to_drop_ > 0) return answers;
      in_request_ = false;
      ByteWriter(answers).i64(now_unix_ns);
    }
    const std::size_t wanted = has_key_ ? sizeof(std::uint64_t) : key_.size();
    const std::size_t taken = std::min(wanted - head_.size(), bytes.size());
    head_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (head_.size() < wanted) {
      // A wrong key is rejected as soon as it shows.
      bad_ = !has_key_ && !key_.starts_with(head_);
      return answers;
    }
    if (has_key_) {
      to_drop_ = ByteReader(as_byte_span(head_)).u64();
      in_request_ = true;
      bad_ = to_drop_ > longest_request;
    } else {
      has_key_ = true;
      bad_ = head_ != key_;
    }
    head_.clear();
  }
  return answers;
}

std::string request_head(std::uint64_t size) {
  std::string head;
  ByteWriter(head).u64(size);
  return head;
}

}  // namespace dlaunch::launcher
