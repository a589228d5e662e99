#include "runtime/rpc/known_workers.h"

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/rendezvous/key_value_store.h"
#include "store/base/text.h"

namespace dlaunch::internal {

// After the loss of a worker the store is asked again: another one may have its name or its rank. Null: ask.
template <class Ids, class Key>
const WorkerContact* KnownWorkers::known(const Ids& ids, const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto at = ids.find(key);
  return at != ids.end() && !agent_->is_lost(at->second) ? &agent_->worker(at->second) : nullptr;
}

const WorkerContact& KnownWorkers::learn(const MemberDirectory::Found& found) {
  agent_->learn(found.worker);
  if (found.has_left) agent_->on_left(found.worker.id);
  return agent_->worker(found.worker.id);
}

const WorkerContact& KnownWorkers::find(std::string_view name) {
  if (const WorkerContact* const worker = known(by_name_, name)) return *worker;
  if (name == agent_->self().name) return agent_->self();
  const auto found = with_store_errors([&] { return directory_->find(name); });
  if (!found)
    throw DistError("there is no worker " + quoted(name) +
                    ": none has joined under this name yet; wait until it has");
  const WorkerContact& worker = learn(*found);
  const std::lock_guard lock(mutex_);
  by_name_.insert_or_assign(std::string(name), worker.id);
  return worker;
}

const WorkerContact& KnownWorkers::find(int rank) {
  const auto wanted = static_cast<std::uint32_t>(rank);
  if (const WorkerContact* const worker = known(by_rank_, wanted)) return *worker;
  if (wanted == agent_->self().rank) return agent_->self();
  const auto found =
      rank < 0 ? std::nullopt : with_store_errors([&] { return directory_->find_rank(wanted); });
  if (!found)
    throw DistError("there is no worker " + std::to_string(rank) + ": none has joined with this rank yet");
  const WorkerContact& worker = learn(*found);
  const std::lock_guard lock(mutex_);
  by_rank_.insert_or_assign(wanted, worker.id);
  return worker;
}

const WorkerContact& KnownWorkers::find_id(std::uint32_t id) {
  if (agent_->knows(id)) return agent_->worker(id);
  const auto found = with_store_errors([&] { return directory_->find_id(id); });
  if (!found) throw DistError("there is no worker with the id " + std::to_string(id));
  return learn(*found);
}

std::vector<WorkerContact> KnownWorkers::all() {
  std::vector<WorkerContact> all = with_store_errors([&] { return directory_->all(); });
  const auto has_died = [&](const WorkerContact& worker) {
    return worker.id != agent_->self().id && Agent::is_gone(worker);
  };
  std::erase_if(all, has_died);
  return all;
}

std::optional<WorkerContact> KnownWorkers::find_present(MemberDirectory& directory, std::uint32_t id) {
  const auto found = with_store_errors([&] { return directory.find_id(id); });
  return found && !found->has_left ? std::optional(found->worker) : std::nullopt;
}

void KnownWorkers::leave(Deadline deadline, std::chrono::milliseconds timeout) {
  const auto give_up = [&](const std::string& what) {
    throw DistNetworkError("calls have not ended within " + in_words(timeout) + ": " + what,
                           {.rank = static_cast<int>(agent_->self().rank), .operation = "shutdown"});
  };
  const bool calls_end = agent_->wait_for_calls(deadline);
  const std::string calls = agent_->waiting_calls();
  with_store_errors([&] { return directory_->leave(agent_->self()), true; });
  agent_->reject_calls();
  if (!calls_end) give_up(calls);
  if (!agent_->wait_until_idle(deadline, [] {})) give_up("functions that run here for other workers");
}

}  // namespace dlaunch::internal
