// libFuzzer: what another worker may send of striped messages, on several connections and in pieces. The
// input consists of turns: a byte that chooses what comes, then its bytes. Bit 7 of it: the front of a
// message; else the connection (2 bits), and how many bytes arrive there (5 bits, in steps of 8). The bytes
// of a stripe are mostly left out: else an input would be as long as its messages.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/rpc_protocol/stripe_reader.h"
#include "runtime/rpc_protocol/stripe_table.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::internal;

class Receiver {
 public:
  // False: the bytes were wrong.
  bool front(std::string_view bytes) {
    RpcMessage message{PartHead::striped_result, number_of(bytes), std::string(bytes)};
    bool is_complete = false;
    if (table_.add_front(message, is_complete)) return false;
    if (is_complete) check(message);
    return true;
  }
  bool arrive(std::size_t connection, std::span<const std::byte> bytes) {
    const auto begin = [this](const StripeHead& head, std::span<std::byte>& place) {
      if (head.blocks > most) return std::optional<std::string>("too long for a fuzzer");
      auto wrong = table_.begin(head, place);
      if (!wrong) require(place.size() == head.length);
      return wrong;
    };
    const auto end = [this](const StripeHead& head) {
      if (const auto message = table_.end(head)) check(*message);
    };
    StripeReader& reader = readers_.at(connection);
    while (!bytes.empty()) {
      const StripeReader::Space space = reader.space();
      require(!space.head.empty());
      // Of a long stripe only the end comes from the input.
      const std::size_t skipped = space.direct.size() > 8 ? space.direct.size() - 8 : 0;
      if (skipped > 0) std::memset(space.direct.data(), 0, skipped);
      std::size_t stored = skipped;
      for (const std::span<std::byte> place : {space.direct.subspan(skipped), space.head}) {
        const std::size_t count = std::min(place.size(), bytes.size());
        if (count > 0) std::memcpy(place.data(), bytes.data(), count);
        bytes = bytes.subspan(count);
        stored += count;
      }
      if (reader.advance(stored, {begin, end})) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint64_t most = 4 * StripeHead::length_of_one;

  static std::uint64_t number_of(std::string_view bytes) {
    return bytes.empty() ? 0U : static_cast<std::uint8_t>(bytes.front()) % 4U;
  }
  static void check(const RpcMessage& message) {
    require(message.kind == PartHead::result && message.body.blocks.size() == 1);
    const std::string copy(message.body.blocks[0].view());  // all can be read
    require(copy.size() == message.body.blocks[0].size && copy.size() <= most);
  }

  StripeTable table_;
  std::array<StripeReader, 4> readers_;
};

void fuzz(FuzzInput input) {
  Receiver receiver;
  std::string_view rest = input.text();
  while (!rest.empty()) {
    const auto choice = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    const bool is_front = (choice & 0x80U) != 0;
    const std::size_t wanted = is_front ? 9 : ((choice & 0x1fU) + 1) * 8;
    const std::string_view bytes = rest.substr(0, wanted);
    rest.remove_prefix(bytes.size());
    const bool is_right = is_front ? receiver.front(bytes)
                                   : receiver.arrive((choice >> 5U) & 3U, std::as_bytes(std::span(bytes)));
    if (!is_right) return;
  }
}

}  // namespace
