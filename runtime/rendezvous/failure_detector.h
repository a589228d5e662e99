// Detects ranks that are lost while a group forms, before they are connected with each other.
//
// Each rank publishes a liveness socket (liveness_socket.h) when it joins, and probes those of some others. A
// rank that finds one closed, or gives up itself, publishes that through the store. The first report counts
// for all ranks, so that a rank which gave up because of another is not blamed.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/rendezvous/liveness_socket.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// What a rank publishes about itself when it joins.
struct PeerInfo {
  std::string host;
  std::string liveness_address;  // LivenessSocket::address(); empty: it has none
  bool compares = false;         // it compares its calls: it is at DebugLevel::detail
};

// Whether the process described here is known to have ended, as seen from the one of `own`.
bool is_gone(const PeerInfo& other, const PeerInfo& own);

// The ranks that this rank monitors: a few of all, so that each rank is monitored by several others that are
// far from each other. Their number grows with the logarithm of the size.
std::vector<int> monitored_by(int rank, int size);

// At probable_address(master_host). None if it is no address of this machine.
std::unique_ptr<LivenessSocket> open_liveness_socket(const std::string& master_host);

// The store's error follows.
inline const std::string lost_with_the_store = "it is gone, and with it the store that it served: ";

// For one group that forms. check() may be called from any thread.
class FailureDetector {
 public:
  struct Member {
    int name = -1;  // its rank, for messages
    PeerInfo info = {};
  };
  struct Options {
    std::shared_ptr<Store> keys;  // the group's
    std::vector<Member> members;
    int self;                                         // the index among them, as the next one; -1: no member
    std::optional<int> server = {};                   // the member that serves the store, if any
    const LivenessSocket* liveness_socket = nullptr;  // this process's
    std::function<void()> extra_check = {};           // called too; what it throws is a loss
    Member outsider = {};                             // this process, if it is not one of them
  };
  // REQUIRES: the liveness socket lives as long.
  explicit FailureDetector(Options options) : options_(std::move(options)) {}

  // Throws DistNetworkError that names the lost rank.
  void check();
  // This rank gives up because of the error, which may name a peer by its index among the members. Publishes
  // it.
  void report(const std::exception_ptr& error) noexcept;

 private:
  struct Loss {
    int name;
    std::string host;
    std::string reason;
  };

  std::optional<Loss> published() const;
  Loss publish(const Loss& loss) const;
  [[nodiscard]] std::optional<Loss> loss_of_server(const StoreError& error) const;
  [[noreturn]] void throw_loss(const Loss& loss) const;
  [[nodiscard]] const Member& member(int index) const {
    return options_.members[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const Member& self() const {
    return options_.self < 0 ? options_.outsider : member(options_.self);
  }

  const Options options_;
};

}  // namespace dlaunch::internal
