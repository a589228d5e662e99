#include "runtime/rpc/known_workers.h"

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/rendezvous/key_value_store.h"
#include "store/base/text.h"

namespace dlaunch::internal {

const WorkerContact& KnownWorkers::learn(const MemberDirectory::Found& found) {
  const WorkerContact& worker = found.worker;
  agent_->learn(worker);
  if (found.has_left) agent_->on_left(worker.id);
  const std::lock_guard lock(mutex_);
  ids_.insert_or_assign(worker.name, worker.id);
  return agent_->worker(worker.id);
}

// After the loss of a worker the store is asked again: another one may have the name.
const WorkerContact& KnownWorkers::find(std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = ids_.find(name);
    if (known != ids_.end() && !agent_->is_lost(known->second)) return agent_->worker(known->second);
  }
  if (name == agent_->self().name) return agent_->self();
  const auto found = with_store_errors([&] { return directory_->find(name); });
  if (!found)
    throw DistError("there is no worker " + quoted(name) +
                    ": none has joined under this name yet; wait until it has");
  return learn(*found);
}

const WorkerContact& KnownWorkers::find(int id) {
  const auto wanted = static_cast<std::uint32_t>(id);
  if (id >= 0 && agent_->knows(wanted)) return agent_->worker(wanted);
  const auto found =
      id < 0 ? std::nullopt
             : with_store_errors([&] { return directory_->find(static_cast<std::uint32_t>(id)); });
  if (!found)
    throw DistError("there is no worker " + std::to_string(id) + ": none has joined with this rank yet");
  return learn(*found);
}

std::vector<WorkerContact> KnownWorkers::all() {
  return with_store_errors([&] { return directory_->all(); });
}

std::optional<WorkerContact> KnownWorkers::find_present(MemberDirectory& directory, std::uint32_t id) {
  const auto found = with_store_errors([&] { return directory.find(id); });
  return found && !found->has_left ? std::optional(found->worker) : std::nullopt;
}

void KnownWorkers::leave(Deadline deadline, std::chrono::milliseconds timeout) {
  const auto give_up = [&](const std::string& what) {
    throw DistNetworkError("calls have not ended within " + in_words(timeout) + ": " + what,
                           {.rank = static_cast<int>(agent_->self().id), .operation = "shutdown"});
  };
  const bool calls_end = agent_->wait_for_calls(deadline);
  const std::string calls = agent_->waiting_calls();
  with_store_errors([&] { return directory_->leave(agent_->self()), true; });
  agent_->reject_calls();
  if (!calls_end) give_up(calls);
  if (!agent_->wait_until_idle(deadline, [] {})) give_up("functions that run here for other workers");
}

}  // namespace dlaunch::internal
