#include "runtime/backends/gloo/spread_transport.h"

#include <algorithm>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/collectives/exchange.h"
#include "runtime/point_to_point/letter.h"

namespace dlaunch {

static_assert(SpreadTransport::whole_limit >= Exchange::block_size &&
              SpreadTransport::whole_limit >= letter_block);

// The parts of one message, each on its lane.
class SpreadTransport::Message final : public Transfer {
 public:
  void add(const Lane& lane, std::unique_ptr<Transfer> part) { parts_.push_back({&lane, std::move(part)}); }

  void wait(Deadline deadline) override {
    for (const Part& part : parts_) {
      try {
        part.transfer->wait(deadline);
      } catch (const DistNetworkError& e) {
        throw DistNetworkError(e.reason() + " (interface '" + part.lane->interface + "')", e.context());
      }
    }
  }

 private:
  struct Part {
    const Lane* lane;
    std::unique_ptr<Transfer> transfer;
  };
  std::vector<Part> parts_;
};

// The slots of short messages end with the operation's number, those of long ones have it above 40 bits.
const SpreadTransport::Lane& SpreadTransport::lane_of(std::uint64_t slot) const {
  return lanes_[(slot + (slot >> 40)) % lanes_.size()];
}

template <class Bytes, class Post>
std::unique_ptr<Transfer> SpreadTransport::post(std::uint64_t slot, Bytes bytes,
                                                const Post& post_part) const {
  auto message = std::make_unique<Message>();
  if (bytes.size() <= whole_limit) {
    const Lane& lane = lane_of(slot);
    message->add(lane, post_part(*lane.transport, bytes));
    return message;
  }
  constexpr std::size_t cache_line = 64;
  const std::size_t even = (bytes.size() + lanes_.size() - 1) / lanes_.size();
  const std::size_t part = (even + cache_line - 1) / cache_line * cache_line;
  std::size_t begin = 0;
  for (const Lane& lane : lanes_) {
    const std::size_t length = std::min(part, bytes.size() - begin);
    message->add(lane, post_part(*lane.transport, bytes.subspan(begin, length)));
    begin += length;
  }
  return message;
}

std::unique_ptr<Transfer> SpreadTransport::post_send(int peer, std::uint64_t slot,
                                                     std::span<const std::byte> bytes) {
  return post(slot, bytes, [=](Transport& lane, std::span<const std::byte> part) {
    return lane.post_send(peer, slot, part);
  });
}

std::unique_ptr<Transfer> SpreadTransport::post_recv(int peer, std::uint64_t slot,
                                                     std::span<std::byte> bytes) {
  return post(slot, bytes,
              [=](Transport& lane, std::span<std::byte> part) { return lane.post_recv(peer, slot, part); });
}

std::unique_ptr<Inbox> SpreadTransport::post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) {
  return lane_of(slot).transport->post_recv_any(slot, bytes);
}

void SpreadTransport::check() {
  for (const Lane& lane : lanes_) lane.transport->check();
}

void SpreadTransport::abort(const std::string& reason) noexcept {
  for (const Lane& lane : lanes_) lane.transport->abort(reason);
}

void SpreadTransport::shutdown(Deadline deadline) noexcept {
  for (const Lane& lane : lanes_) lane.transport->shutdown(deadline);
}

}  // namespace dlaunch
