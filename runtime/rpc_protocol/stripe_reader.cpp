#include "runtime/rpc_protocol/stripe_reader.h"

#include <algorithm>

namespace dlaunch::internal {

std::optional<std::string> StripeReader::advance(std::size_t count, const Table& table) {
  const std::size_t direct = std::min(count, place_.size());
  place_ = place_.subspan(direct);
  if (head_ && place_.empty()) {
    table.end(*head_);
    head_.reset();
  }
  filled_ += count - direct;
  if (filled_ < StripeHead::size) return std::nullopt;
  filled_ = 0;
  head_ = StripeHead::parse(head_bytes_);
  if (!head_) return "it has sent bytes that are no stripe";
  return table.begin(*head_, place_);
}

}  // namespace dlaunch::internal
