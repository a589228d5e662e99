// One attempt of one rank to form a group, or only to agree on a call: the ranks meet through the store, then
// their backends connect. Whatever fails on one rank meanwhile is reported to the others.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/group/backend_choice.h"
#include "runtime/group/group_description.h"
#include "runtime/group/group_impl.h"
#include "runtime/rendezvous/failure_detector.h"
#include "runtime/rendezvous/rendezvous.h"
#include "store/client/store.h"

namespace dlaunch::internal {

class GroupRendezvous {
 public:
  // `keys`: of this attempt alone.
  GroupRendezvous(std::shared_ptr<Store> keys, RendezvousOptions options)
      : keys_(std::move(keys)), options_(std::move(options)) {}
  GroupRendezvous(const GroupRendezvous&) = delete;
  GroupRendezvous& operator=(const GroupRendezvous&) = delete;

  // From now on check() also finds members of the group whose process has ended. `group`: their ranks, as
  // RendezvousOptions has them; `peers`: by these numbers. `server`: the member that serves the store, if any
  // does. REQUIRES: the liveness socket lives as long.
  void detect_failures(std::span<const int> group, const std::vector<PeerInfo>& peers,
                       std::optional<int> server, const LivenessSocket* liveness_socket);
  // Throws DistNetworkError if a member is lost.
  void check();

  // As rendezvous(), with check() instead of the options' own.
  std::vector<PeerInfo> meet();

  // Makes the backends of the group, with check() during the waits. An error names a peer by its rank in the
  // group. REQUIRES: this rank is a member.
  std::vector<GroupImpl::DeviceBackend> connect(const std::vector<ChosenModule>& modules,
                                                const GroupDescription& group, const std::string& master_host,
                                                const SplitSource& split = {});

  // connect() has thrown `error`: the other members are informed. If the error is that the store was lost
  // before the deadline, explain_lost_store() is called first; it may throw the error that is the
  // cause. REQUIRES: detect_failures() was called.
  void report_failure(const std::exception_ptr& error, const std::function<void()>& explain_lost_store);

 private:
  const std::shared_ptr<Store> keys_;
  RendezvousOptions options_;
  std::optional<FailureDetector> detector_;
};

// The group of these backends. `identity`: distinguishes it from every other group of the job, alike on all
// members. `recorded`: in the flight recorder, if this rank is a member.
std::shared_ptr<GroupImpl> make_group(GroupDescription description,
                                      std::vector<GroupImpl::DeviceBackend> backends,
                                      std::shared_ptr<Store> keys, const std::string& identity,
                                      bool recorded);

}  // namespace dlaunch::internal
