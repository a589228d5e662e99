// Whether all ranks of a group make the same call, before anything of it is sent: under DebugLevel::detail
// for each collective, and for monitored_barrier() always. The ranks compare through the store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/group/group_description.h"
#include "runtime/rendezvous/store_barrier.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// One group's. Each function throws DistNetworkError, on all ranks, if the calls differ or if a rank does not
// come; and StoreError.
class CallComparison {
 public:
  struct Peers {
    std::function<void()> check;                 // throws DistNetworkError if a rank is lost
    std::function<std::vector<int>()> departed;  // the ranks that have left the group
  };
  struct Call {
    std::string name;       // for messages: "barrier()"
    std::string statement;  // must be the same on all ranks: the name; after a line break its splits, if any
    Deadline deadline;
  };
  using DescribeMissing = std::function<std::string(const std::vector<int>& missing)>;

  // `keys`: the group's part of the store; may be null. REQUIRES: the description lives as long.
  CallComparison(const GroupDescription& group, std::shared_ptr<Store> keys, Peers peers);

  // One at a time. Does nothing in a group without a store or of one rank.
  void compare(const Call& call);
  // The same with the caller's text for the ranks that did not come. REQUIRES: the group has a store.
  void compare(const Call& call, DescribeMissing describe_missing);
  // A barrier outside of the sequence of compared calls. One at a time, but compare() may run meanwhile.
  // REQUIRES: the group has a store.
  void barrier(const Call& call, DescribeMissing describe_missing);

 private:
  void synchronize(std::optional<StoreBarrier>& barrier, const char* prefix,
                   StoreBarrier::Latecomers latecomers, const Call& call, DescribeMissing describe_missing);

  const GroupDescription& group_;
  const std::shared_ptr<Store> keys_;
  const Peers peers_;
  std::optional<StoreBarrier> calls_;
  std::optional<StoreBarrier> barriers_;
};

}  // namespace dlaunch::internal
