#include "runtime/rpc/worker_set.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/rendezvous/key_value_store.h"
#include "runtime/rendezvous/rendezvous.h"
#include "runtime/rpc/agent.h"
#include "store/base/text.h"

namespace dlaunch::internal {

namespace {

constexpr auto turn = std::chrono::milliseconds(200);
constexpr auto between_lease_checks = std::chrono::seconds(1);
// How long the worker that serves the store stays for others that still read it.
constexpr auto patience = std::chrono::seconds(10);

}  // namespace

std::string WorkerSet::key(const std::string& what, int rank) const {
  return what + "/" + std::to_string(rank);
}

// Of all workers, by rank.
std::vector<std::string> WorkerSet::keys_of(const std::string& what) const {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) keys.push_back(key(what, rank));
  return keys;
}

const std::vector<WorkerContact>& WorkerSet::meet(Deadline deadline, const std::string& master_host) {
  keys_->set(key("contact", static_cast<int>(self_.id)), to_text(self_));
  RendezvousOptions options;
  options.call = "init_rpc";
  options.statement = "a world of " + pluralize(size_, "worker");
  options.self = options.rank = static_cast<int>(self_.rank);
  options.members.resize(static_cast<std::size_t>(size_));
  std::iota(options.members.begin(), options.members.end(), 0);
  options.deadline = deadline;
  options.serves_store = serves_store_;
  const std::unique_ptr<LivenessSocket> liveness_socket = open_liveness_socket(master_host);
  options.liveness_socket = liveness_socket.get();
  rendezvous(*keys_, options);
  const std::vector<std::string> keys = keys_of("contact");
  std::map<std::string, std::uint32_t> ids;
  for (const std::string& text : keys_->multi_get(keys)) {
    const std::optional<WorkerContact> worker = parse_worker_contact(text);
    if (!worker || worker->id != workers_.size())
      throw DistNetworkError("it has published no address for remote calls",
                             {.operation = "init_rpc", .peer = static_cast<int>(workers_.size())});
    const auto [before, is_new] = ids.emplace(worker->name, worker->id);
    if (!is_new) {
      throw DistError("the workers " + std::to_string(before->second) + " and " + std::to_string(worker->id) +
                          " both have the name " + quoted(worker->name) + ": give each its own",
                      {.rank = static_cast<int>(self_.rank), .operation = "init_rpc"});
    }
    workers_.push_back(*worker);
  }
  return workers_;
}

void WorkerSet::check() {
  if (!has_passed(next_check_)) return;
  next_check_ = deadline_after(between_lease_checks);
  for (const int rank : awaited_) {
    const WorkerContact& worker = workers_[static_cast<std::size_t>(rank)];
    if (!Agent::is_gone(worker)) continue;
    throw DistNetworkError(describe(worker) + " died, and has not called shutdown",
                           {.rank = static_cast<int>(self_.rank), .operation = "shutdown"});
  }
}

// Every worker's text for `what`, by rank.
std::vector<std::string> WorkerSet::exchange(const std::string& what, const std::string& own,
                                             Deadline deadline) {
  keys_->set(key(what, static_cast<int>(self_.id)), own);
  const std::vector<std::string> keys = keys_of(what);
  for (;;) {
    try {
      keys_->wait(keys, std::min<std::chrono::milliseconds>(turn, time_left(deadline)));
      return keys_->multi_get(keys);
    } catch (const StoreError& e) {
      if (e.error().kind != ErrorKind::timeout) throw;
    }
    awaited_ = absent_keys(*keys_, keys);
    check();
    if (!has_passed(deadline)) continue;
    ShortList names;
    for (const int rank : awaited_) names.add(describe(workers_[static_cast<std::size_t>(rank)]));
    throw DistNetworkError("not called by " + names.text() + " before the deadline",
                           {.rank = static_cast<int>(self_.rank), .operation = "shutdown"});
  }
}

// A call that runs may make others. So the workers compare twice how many calls each has had: if no number
// has changed and all were idle in between, none is under way.
void WorkerSet::leave(Deadline deadline, const std::function<std::uint64_t()>& idle) {
  awaited_.resize(static_cast<std::size_t>(size_));
  std::iota(awaited_.begin(), awaited_.end(), 0);
  std::erase(awaited_, static_cast<int>(self_.id));
  std::vector<std::string> before;
  for (int round = 0;; ++round) {
    const std::string calls = std::to_string(idle());
    std::vector<std::string> now = exchange("calls/" + std::to_string(round), calls, deadline);
    if (now == before) break;
    before = std::move(now);
  }
  await_readers(std::min(deadline, deadline_after(patience)));
}

void WorkerSet::await_readers(Deadline deadline) {
  const std::string all_left = "left by all";
  try {
    if (keys_->add("left", 1) == size_) keys_->set(all_left, "");
    if (serves_store_) keys_->wait({&all_left, 1}, time_left(deadline));
  } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch): one is late or lost; all calls have ended
  }
}

}  // namespace dlaunch::internal
