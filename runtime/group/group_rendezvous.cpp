#include "runtime/group/group_rendezvous.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
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

// -1: it is none of them. No ranks: all.
int rank_among(std::span<const int> ranks, int rank) {
  const auto found = std::ranges::find(ranks, rank);
  if (ranks.empty()) return rank;
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

}  // namespace

void GroupRendezvous::detect_failures(std::span<const int> group, const std::vector<PeerInfo>& peers,
                                      std::optional<int> server, const LivenessSocket* liveness_socket) {
  const auto entry = [&](int rank) {
    return FailureDetector::Member{rank, peers[static_cast<std::size_t>(rank)]};
  };
  std::vector<FailureDetector::Member> members;
  members.reserve(group.size());
  for (const int rank : group) members.push_back(entry(rank));
  detector_.emplace(FailureDetector::Options{.keys = keys_,
                                             .members = std::move(members),
                                             .self = rank_among(group, options_.self),
                                             .server = server,
                                             .liveness_socket = liveness_socket,
                                             .extra_check = options_.check,
                                             .outsider = entry(options_.self)});
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
                                                               const std::string& master_host,
                                                               const SplitSource& split) {
  const auto check_by_rank = [this, &ranks = group.ranks] {
    try {
      check();
    } catch (const DistNetworkError& e) {
      std::rethrow_exception(with_peer(std::current_exception(), rank_among(ranks, e.context().peer)));
    }
  };
  return make_backends(modules, keys_, group, options_.deadline, master_host, check_by_rank, split);
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
