// Who of the ranks that are making a group is gone before they are connected with each other.
//
// Each has a liveness socket (liveness_socket.h), of which the others hear when it joins, and looks for those
// of some others. Who finds one closed, or gives up itself, tells all through the store: who comes first is
// believed by all, so that one that has only given up because of another is not named for it.
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

namespace dlaunch {

// What a rank tells of itself when it joins.
struct PeerInfo {
  std::string host;
  std::string liveness_address;  // LivenessSocket::address(); empty: it has none
  bool compares = false;         // its calls with the others': it is at DebugLevel::detail
};

// Whether the process described here is known to have ended, as seen from the one of `own`.
bool is_gone(const PeerInfo& other, const PeerInfo& own);

// The ranks that this one looks for: so many of all that each is looked for by several, which are far from
// each other, and no more, however many there are.
std::vector<int> monitored_by(int rank, int size);

// At the address that the ranks' connections begin at, as far as that can be told before they know each
// other: that of the first interface which the environment names, else the one towards `master_host`, else
// (it is empty) an outer one. None where there is no such address.
std::unique_ptr<LivenessSocket> open_liveness_socket(const std::string& master_host);

// What follows says of the store how it was lost.
inline const std::string lost_with_the_store = "it is gone, and with it the store that it served: ";

// For one group that is being made. check() may be called from any thread.
class FailureDetector {
 public:
  struct Member {
    int name;  // its rank, for messages
    PeerInfo info;
  };
  struct Options {
    std::shared_ptr<Store> keys;  // the group's
    std::vector<Member> members;
    int self;                                         // the index among them, as the next one
    std::optional<int> server = {};                   // who serves the store, if it is one of them
    const LivenessSocket* liveness_socket = nullptr;  // this process's
    std::function<void()> extra_check = {};           // asked too; what it throws is a loss
  };
  // REQUIRES: the liveness socket lives as long.
  explicit FailureDetector(Options options) : options_(std::move(options)) {}

  // Throws DistNetworkError that names who is gone.
  void check();
  // This rank gives up because of the error, which may name a peer by its index among the members: the others
  // hear it.
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
  [[nodiscard]] const Member& self() const { return member(options_.self); }

  const Options options_;
};

}  // namespace dlaunch
