#include "runtime/backends/gloo/multi_rail_transport.h"

#include <algorithm>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/point_to_point/envelope.h"

namespace dlaunch::internal {

static_assert(MultiRailTransport::whole_limit >= envelope_block);

// The parts of one message, each on its rail.
class MultiRailTransport::Message final : public Transfer {
 public:
  void add(const Rail& rail, std::unique_ptr<Transfer> part) { parts_.push_back({&rail, std::move(part)}); }

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
    const Rail* rail;
    std::unique_ptr<Transfer> transfer;
  };

  // Waits for the parts in turn, until one is late.
  template <class Wait>
  bool await(const Wait& wait) {
    for (; done_ < parts_.size(); ++done_) {
      const Part& part = parts_[done_];
      try {
        if (!wait(*part.transfer)) return false;
      } catch (const DistNetworkError& e) {
        throw DistNetworkError(e.reason() + " (interface '" + part.rail->interface + "')", e.context());
      }
    }
    return true;
  }

  std::vector<Part> parts_;
  std::size_t done_ = 0;
};

// The messages of two ranks take the rails in turn: both ranks count them, and so know the rail of the next.
class MultiRailTransport::RoundRobinChannel final : public EagerChannel {
 public:
  RoundRobinChannel(const std::vector<Rail>& rails, int size)
      : rails_(rails), sent_(static_cast<std::size_t>(size)), received_(static_cast<std::size_t>(size)) {}

  std::byte* compose(int peer, Deadline deadline) override {
    return rail(sent_, peer).compose(peer, deadline);
  }
  void send(int peer, std::size_t length) override {
    rail(sent_, peer).send(peer, length);
    ++sent_[static_cast<std::size_t>(peer)];
  }
  const std::byte* receive(int peer, Deadline deadline) override {
    return rail(received_, peer).receive(peer, deadline);
  }
  void release(int peer) noexcept override {
    rail(received_, peer).release(peer);
    ++received_[static_cast<std::size_t>(peer)];
  }

 private:
  [[nodiscard]] EagerChannel& rail(const std::vector<std::uint64_t>& counts, int peer) const {
    return rails_[counts[static_cast<std::size_t>(peer)] % rails_.size()].transport->eager_channel();
  }

  const std::vector<Rail>& rails_;
  std::vector<std::uint64_t> sent_;  // by peer: the number of the next message
  std::vector<std::uint64_t> received_;
};

MultiRailTransport::MultiRailTransport(std::vector<Rail> rails)
    : rails_(std::move(rails)), eager_channel_(std::make_unique<RoundRobinChannel>(rails_, size())) {}

MultiRailTransport::~MultiRailTransport() = default;

// Low bits, because slots are hashes, and above 40 bits.
const MultiRailTransport::Rail& MultiRailTransport::rail_of(std::uint64_t slot) const {
  return rails_[(slot + (slot >> 40)) % rails_.size()];
}

template <class Bytes, class Post>
std::unique_ptr<Transfer> MultiRailTransport::post(std::uint64_t slot, Bytes bytes,
                                                   const Post& post_part) const {
  auto message = std::make_unique<Message>();
  if (bytes.size() <= whole_limit) {
    const Rail& rail = rail_of(slot);
    message->add(rail, post_part(*rail.transport, bytes));
    return message;
  }
  constexpr std::size_t cache_line = 64;
  const std::size_t even = (bytes.size() + rails_.size() - 1) / rails_.size();
  const std::size_t part = (even + cache_line - 1) / cache_line * cache_line;
  std::size_t begin = 0;
  for (const Rail& rail : rails_) {
    const std::size_t length = std::min(part, bytes.size() - begin);
    message->add(rail, post_part(*rail.transport, bytes.subspan(begin, length)));
    begin += length;
  }
  return message;
}

std::unique_ptr<Transfer> MultiRailTransport::post_send(int peer, std::uint64_t slot,
                                                        std::span<const std::byte> bytes) {
  return post(slot, bytes, [=](Transport& rail, std::span<const std::byte> part) {
    return rail.post_send(peer, slot, part);
  });
}

std::unique_ptr<Transfer> MultiRailTransport::post_recv(int peer, std::uint64_t slot,
                                                        std::span<std::byte> bytes) {
  return post(slot, bytes,
              [=](Transport& rail, std::span<std::byte> part) { return rail.post_recv(peer, slot, part); });
}

std::unique_ptr<AnySourceReceive> MultiRailTransport::post_recv_any(std::uint64_t slot,
                                                                    std::span<std::byte> bytes) {
  return rail_of(slot).transport->post_recv_any(slot, bytes);
}

std::vector<int> MultiRailTransport::departed() { return rails_.front().transport->departed(); }

void MultiRailTransport::check() {
  for (const Rail& rail : rails_) rail.transport->check();
}

// One rail may know what another has not noticed yet.
void MultiRailTransport::abort(const std::string& reason) noexcept {
  const int lost = lost_peer();
  for (const Rail& rail : rails_) {
    if (lost >= 0) {
      rail.transport->abort_for(lost, reason);
    } else {
      rail.transport->abort(reason);
    }
  }
}

int MultiRailTransport::lost_peer() noexcept {
  for (const Rail& rail : rails_) {
    try {
      rail.transport->check();
    } catch (const DistNetworkError& e) {
      if (e.context().peer >= 0) return e.context().peer;
    } catch (...) {  // the rail cannot report it
    }
  }
  return -1;
}

void MultiRailTransport::abort_for(int peer, const std::string& reason) noexcept {
  for (const Rail& rail : rails_) rail.transport->abort_for(peer, reason);
}

void MultiRailTransport::shutdown(Deadline deadline) noexcept {
  for (const Rail& rail : rails_) rail.transport->shutdown(deadline);
}

}  // namespace dlaunch::internal
