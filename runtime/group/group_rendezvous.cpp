#include "runtime/group/group_rendezvous.h"

#include <cstddef>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/record/recorder.h"

namespace dlaunch::internal {

namespace {

bool is_store_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DistStoreError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void GroupRendezvous::detect_failures(const std::vector<PeerInfo>& peers, std::optional<int> server,
                                      const LivenessSocket* liveness_socket) {
  std::vector<FailureDetector::Member> members;
  members.reserve(options_.members.size());
  for (const int rank : options_.members) members.push_back({rank, peers[static_cast<std::size_t>(rank)]});
  detector_.emplace(FailureDetector::Options{keys_, std::move(members), options_.rank, server,
                                             liveness_socket, options_.check});
}

void GroupRendezvous::check() {
  if (detector_) return detector_->check();
  if (options_.check) options_.check();
}

std::vector<PeerInfo> GroupRendezvous::meet() {
  RendezvousOptions options = options_;
  if (detector_) options.check = [this] { check(); };
  return rendezvous(*keys_, options);
}

std::vector<GroupImpl::DeviceBackend> GroupRendezvous::connect(const std::vector<ChosenModule>& modules,
                                                               const GroupDescription& group,
                                                               const std::string& master_host) {
  return make_backends(modules, keys_, group, options_.deadline, master_host, [this] { check(); });
}

void GroupRendezvous::report_failure(const std::exception_ptr& error,
                                     const std::function<void()>& explain_lost_store) {
  if (is_store_error(error) && !has_passed(options_.deadline)) explain_lost_store();
  detector_->report(error);
}

std::shared_ptr<GroupImpl> make_group(GroupDescription description,
                                      std::vector<GroupImpl::DeviceBackend> backends,
                                      std::shared_ptr<Store> keys, const std::string& identity,
                                      bool recorded) {
  GroupRecorder record;
  if (description.rank >= 0 && recorded) {
    record = recorder().add(
        {identity, description.name, description.backend, description.rank, description.ranks});
  }
  return std::make_shared<GroupImpl>(std::move(description), std::move(backends), std::move(keys), record);
}

}  // namespace dlaunch::internal
