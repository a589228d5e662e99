#include "runtime/backends/gloo/spread_transport.h"

#include <algorithm>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/point_to_point/letter.h"

namespace dlaunch {

static_assert(SpreadTransport::whole_limit >= letter_block);

// The parts of one message, each on its lane.
class SpreadTransport::Message final : public Transfer {
 public:
  void add(const Lane& lane, std::unique_ptr<Transfer> part) { parts_.push_back({&lane, std::move(part)}); }

  void wait(Deadline deadline) override {
    await([deadline](Transfer& part) {
      part.wait(deadline);
      return true;
    });
  }
  bool wait_until(Deadline deadline) override {
    return await([deadline](Transfer& part) { return part.wait_until(deadline); });
  }

 private:
  struct Part {
    const Lane* lane;
    std::unique_ptr<Transfer> transfer;
  };

  // Each part in turn, until one is late.
  template <class Wait>
  bool await(const Wait& wait) {
    for (; done_ < parts_.size(); ++done_) {
      const Part& part = parts_[done_];
      try {
        if (!wait(*part.transfer)) return false;
      } catch (const DistNetworkError& e) {
        throw DistNetworkError(e.reason() + " (interface '" + part.lane->interface + "')", e.context());
      }
    }
    return true;
  }

  std::vector<Part> parts_;
  std::size_t done_ = 0;
};

// The messages of two ranks take the lanes in turn: both count them, and so know where the next one is.
class SpreadTransport::Turns final : public Line {
 public:
  Turns(const std::vector<Lane>& lanes, int size)
      : lanes_(lanes), sent_(static_cast<std::size_t>(size)), received_(static_cast<std::size_t>(size)) {}

  std::byte* compose(int peer, Deadline deadline) override {
    return lane(sent_, peer).compose(peer, deadline);
  }
  void send(int peer, std::size_t length) override {
    lane(sent_, peer).send(peer, length);
    ++sent_[static_cast<std::size_t>(peer)];
  }
  const std::byte* receive(int peer, Deadline deadline) override {
    return lane(received_, peer).receive(peer, deadline);
  }
  void release(int peer) noexcept override {
    lane(received_, peer).release(peer);
    ++received_[static_cast<std::size_t>(peer)];
  }

 private:
  [[nodiscard]] Line& lane(const std::vector<std::uint64_t>& counts, int peer) const {
    return lanes_[counts[static_cast<std::size_t>(peer)] % lanes_.size()].transport->line();
  }

  const std::vector<Lane>& lanes_;
  std::vector<std::uint64_t> sent_;  // by peer, as the next
  std::vector<std::uint64_t> received_;
};

SpreadTransport::SpreadTransport(std::vector<Lane> lanes)
    : lanes_(std::move(lanes)), line_(std::make_unique<Turns>(lanes_, size())) {}

SpreadTransport::~SpreadTransport() = default;

// Numbers of messages at the end, as hashes are, and above 40 bits.
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

std::vector<int> SpreadTransport::departed() { return lanes_.front().transport->departed(); }

void SpreadTransport::check() {
  for (const Lane& lane : lanes_) lane.transport->check();
}

// A lane may not have noticed yet what another one knows.
void SpreadTransport::abort(const std::string& reason) noexcept {
  const int lost = lost_peer();
  for (const Lane& lane : lanes_) {
    if (lost >= 0) {
      lane.transport->abort_for(lost, reason);
    } else {
      lane.transport->abort(reason);
    }
  }
}

int SpreadTransport::lost_peer() noexcept {
  for (const Lane& lane : lanes_) {
    try {
      lane.transport->check();
    } catch (const DistNetworkError& e) {
      if (e.context().peer >= 0) return e.context().peer;
    } catch (...) {  // it cannot tell
    }
  }
  return -1;
}

void SpreadTransport::abort_for(int peer, const std::string& reason) noexcept {
  for (const Lane& lane : lanes_) lane.transport->abort_for(peer, reason);
}

void SpreadTransport::shutdown(Deadline deadline) noexcept {
  for (const Lane& lane : lanes_) lane.transport->shutdown(deadline);
}

}  // namespace dlaunch
