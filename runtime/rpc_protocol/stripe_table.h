// Puts striped messages together, from the stripes of all connections and from their fronts.
//
// Stripes are stored where the receiver of the message finds them. An announced length alone takes no memory,
// and what else is kept of a message is a few bytes for each of its stripes that have arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "runtime/rpc_protocol/message_reader.h"
#include "runtime/rpc_protocol/stripe_head.h"

namespace dlaunch::internal {

class StripeTable {
 public:
  // Messages that have begun and are not complete. A sender begins fewer.
  static constexpr std::size_t most_open = 1024;

  // A stripe begins: its bytes are to be stored at `place`, which is there until end(). Returns what is wrong
  // with it, after which the table is not to be used; none: nothing.
  std::optional<std::string> begin(const StripeHead& head, std::span<std::byte>& place);
  // They are stored. Returns the message if it is complete now.
  std::optional<RpcMessage> end(const StripeHead& head);
  // A striped message whose front has arrived: is replaced by the whole one if that is complete now, which
  // `is_complete` reports. Returns what is wrong, as above.
  std::optional<std::string> add_front(RpcMessage& message, bool& is_complete);

 private:
  struct Open {
    std::uint64_t size = 0;
    std::shared_ptr<std::byte> blocks = {};
    std::uint64_t stored = 0;  // bytes
    // Stripes that have begun: all before the first, and those.
    std::uint64_t all_before = 0;
    std::set<std::uint64_t> others = {};
    std::optional<RpcMessage> front = {};
  };
  std::optional<std::string> open(std::uint64_t number, std::uint64_t size);
  static bool claim(Open& message, std::uint64_t stripe);
  std::optional<RpcMessage> take_if_complete(std::uint64_t number);

  std::unordered_map<std::uint64_t, Open> open_;  // by number
};

}  // namespace dlaunch::internal
