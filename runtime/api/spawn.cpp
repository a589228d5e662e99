#include "dlaunch/spawn.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "runtime/api/spawn_message.h"
#include "runtime/api/spawn_process.h"
#include "runtime/base/deadline.h"
#include "runtime/base/process_environment.h"
#include "runtime/group/first_failure.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

SpawnError::~SpawnError() = default;

}  // namespace v1

namespace {

// How long a failed process may take to end after the others have detected its failure.
constexpr auto gathering = std::chrono::seconds(5);

}  // namespace

inline namespace v1 {

struct SpawnContext::State {
  SpawnOptions options;
  RendezvousFolder place;
  std::vector<SpawnedProcess> processes;
  std::vector<int> well;              // ranks
  std::vector<RankFailure> failures;  // in the order in which they were seen
  Deadline gathered = Deadline::max();

  ~State() { end_all(std::chrono::milliseconds(0)); }

  // The ranks that have ended by the deadline, or none.
  std::vector<std::size_t> wait_for_any(Deadline deadline) {
    std::vector<pollfd> handles;
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      if (processes[rank].ended) continue;
      handles.push_back({processes[rank].handle.get(), POLLIN, 0});
      ranks.push_back(rank);
    }
    const auto left = std::min<std::chrono::milliseconds>(time_left(deadline), std::chrono::hours(24));
    std::vector<std::size_t> ended;
    if (handles.empty() || poll(handles.data(), handles.size(), static_cast<int>(left.count())) <= 0)
      return ended;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      if (handles[i].revents != 0) ended.push_back(ranks[i]);
    }
    return ended;
  }

  [[nodiscard]] bool all_ended() const {
    return std::ranges::all_of(processes, [](const SpawnedProcess& process) { return process.ended; });
  }

  void signal_all(int number) const {
    for (const SpawnedProcess& process : processes) {
      if (!process.ended) kill(process.pid, number);
    }
  }

  void end_all(std::chrono::milliseconds grace) {
    signal_all(SIGTERM);
    const Deadline deadline = deadline_after(grace);
    while (!all_ended() && !has_passed(deadline)) {
      for (const std::size_t rank : wait_for_any(deadline)) (void)reap(processes[rank]);
    }
    signal_all(SIGKILL);
    for (SpawnedProcess& process : processes) {
      if (!process.ended) (void)reap(process);
    }
  }

  // Whether any has ended by the deadline.
  bool look(Deadline deadline) {
    std::vector<RankFailure> seen;
    const std::vector<std::size_t> ended = wait_for_any(deadline);
    for (const std::size_t rank : ended) {
      if (auto failure = reap(processes[rank])) {
        seen.push_back(*std::move(failure));
      } else {
        well.push_back(processes[rank].rank);
      }
    }
    if (failures.empty() && !seen.empty()) gathered = deadline_after(gathering);
    std::ranges::stable_sort(seen, {}, &RankFailure::thrown_ns);
    failures.insert(failures.end(), seen.begin(), seen.end());
    return !ended.empty();
  }

  // The failure to report, when it is known or the time is up.
  [[nodiscard]] const RankFailure* verdict(bool time_is_up) const {
    if (failures.empty()) return nullptr;
    const FirstFailure first = first_failure(failures, well);
    return first.final || time_is_up || all_ended() ? first.failure : nullptr;
  }
};

SpawnContext::SpawnContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
SpawnContext::~SpawnContext() = default;
SpawnContext::SpawnContext(SpawnContext&& other) noexcept = default;
SpawnContext& SpawnContext::operator=(SpawnContext&& other) noexcept = default;

bool SpawnContext::join(std::optional<std::chrono::milliseconds> timeout) {
  const Deadline deadline = deadline_after(timeout.value_or(longest_timeout));
  for (bool time_is_up = false;;) {
    if (const RankFailure* const first = state_->verdict(time_is_up)) {
      state_->end_all(state_->options.grace);
      throw SpawnError("rank " + std::to_string(first->rank) + " " + first->problem,
                       {.rank = first->rank, .operation = "spawn"});
    }
    if (state_->all_ended()) return true;
    if (time_is_up) return false;
    const Deadline next = std::min(deadline, state_->gathered);
    time_is_up = !state_->look(next) && has_passed(next);
  }
}

std::vector<int> SpawnContext::pids() const {
  std::vector<int> result;
  for (const SpawnedProcess& process : state_->processes) result.push_back(process.pid);
  return result;
}

SpawnContext SpawnContext::start(int nprocs, const SpawnOptions& options, const Starter& start_rank) {
  if (nprocs < 1) throw DistError("spawn: nprocs must be at least 1");
  auto state = std::make_unique<State>();
  state->options = options;
  std::fflush(nullptr);  // or each process would write it again
  for (int rank = 0; rank < nprocs; ++rank) {
    state->processes.push_back(start_rank({rank, nprocs, getpid(), state->place.file()}));
  }
  return SpawnContext(std::move(state));
}

SpawnContext start_processes(const std::function<void(int rank)>& body, int nprocs,
                             const SpawnOptions& options) {
  return SpawnContext::start(nprocs, options,
                             [&](const SpawnOrder& order) { return fork_rank(order, body); });
}

SpawnContext start_processes(const std::string& function, const std::vector<std::string>& arguments,
                             int nprocs, const SpawnOptions& options) {
  if (process_environment(spawn_variable)) {
    throw DistError(
        "spawn: this process was itself started by spawn, but main() has not called "
        "dlaunch::run_if_spawned()");
  }
  return SpawnContext::start(nprocs, options,
                             [&](const SpawnOrder& order) { return exec_rank(order, function, arguments); });
}

void spawn(const std::function<void(int rank)>& body, int nprocs, const SpawnOptions& options) {
  start_processes(body, nprocs, options).join();
}

void spawn(const std::string& function, const std::vector<std::string>& arguments, int nprocs,
           const SpawnOptions& options) {
  start_processes(function, arguments, nprocs, options).join();
}

}  // namespace v1
}  // namespace dlaunch
