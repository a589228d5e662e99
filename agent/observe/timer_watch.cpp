#include "agent/observe/timer_watch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/platform/reaper.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t piece_size = 16U * 1024;
constexpr int most_pieces = 8;  // more than a FIFO holds
constexpr std::size_t longest_scope = 120;
constexpr int most_warnings = 20;

double wall_s() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::string name_of(const std::string& scope) {
  return "'" + shortened(sanitize_for_terminal(scope), longest_scope) + "'";
}

}  // namespace

TimerWatch::TimerWatch(Dependencies dependencies, Config config)
    : dependencies_(dependencies), config_(std::move(config)) {
  dependencies_.poller.watch(config_.fifo, true, false, *this);
}

TimerWatch::~TimerWatch() {
  dependencies_.timers.disarm(next_);
  dependencies_.poller.unwatch(config_.fifo);
}

std::optional<Postmortem::Sent> TimerWatch::sent_to(ProcKey worker) const {
  const auto found = sent_.find(worker);
  return found == sent_.end() ? std::nullopt : std::optional(found->second);
}

void TimerWatch::on_readable(int) {
  read_some();
  arm_next();
}

void TimerWatch::on_timer(TimerId) {
  next_ = {};
  // A release that was written in time counts, even if this process was suspended meanwhile.
  for (int i = 0; i < most_pieces && read_some(); ++i) {
  }
  const auto expired = book_.take_expired(dependencies_.clock.now());
  if (!expired.empty()) {
    const std::vector<pid_t> processes = descendants_of(config_.keeper());
    const JobStatus status = config_.status();
    for (const TimerBook::Expired& timer : expired) end(timer, processes, status);
  }
  arm_next();
}

// False: nothing was there.
bool TimerWatch::read_some() {
  std::array<char, piece_size> piece;
  const ssize_t got = read(config_.fifo, piece.data(), piece.size());
  if (got <= 0) return false;
  lines_.cut(std::string_view(piece.data(), static_cast<std::size_t>(got)),
             [this](std::string_view line) { take(line); });
  return true;
}

void TimerWatch::take(std::string_view line) {
  const auto request = parse_timer_request(line, wall_s());
  if (!request) return warn(request.error().message());
  const auto birth = birth_of(request->pid);
  if (!birth) return;  // it has ended meanwhile
  if (book_.take(*request, *birth, dependencies_.clock.now())) return;
  if (!std::exchange(has_tidied_, true)) {
    book_.forget([](const TimedProcess& process) { return birth_of(process.pid) != process.birth; });
    if (book_.take(*request, *birth, dependencies_.clock.now())) return;
  }
  warn("timer " + name_of(request->scope) + " of process " +
       sanitize_for_terminal(name_process(request->pid)) + " was rejected: there are " +
       std::to_string(TimerBook::most) + " timers already");
}

void TimerWatch::end(const TimerBook::Expired& timer, const std::vector<pid_t>& processes,
                     const JobStatus& status) {
  const pid_t pid = timer.process.pid;
  if (birth_of(pid) != timer.process.birth) return;  // it has ended
  const std::string name = name_of(timer.scope);
  const std::string whose = "timer " + name + " of process " + sanitize_for_terminal(name_process(pid));
  if (std::find(processes.begin(), processes.end(), pid) == processes.end())
    return warn(whose + " has expired, but the process does not belong to this job: no signal was sent");

  if (timer.signo == 0) return warn(whose + " has expired; it asks for no signal");
  if (kill(pid, timer.signo) != 0) {
    warn(whose + " has expired, but " + signal_name(timer.signo) +
         " cannot be sent: " + std::strerror(errno));
    return;
  }
  const auto worker = std::find_if(status.workers.begin(), status.workers.end(),
                                   [&](const WorkerStatus& one) { return one.pid == pid; });
  if (worker == status.workers.end()) {
    config_.on_log({Severity::warning, whose + ", a descendant of a worker, has expired: " +
                                           signal_name(timer.signo) + " was sent"});
    return;
  }
  const auto round = static_cast<std::uint32_t>(status.round);
  std::erase_if(sent_, [&](const auto& one) { return one.first.round != round; });
  sent_[{round, static_cast<std::uint32_t>(worker->local_rank)}] = {timer.signo,
                                                                    "its timer " + name + " expired"};
  config_.on_log({Severity::info, "timer " + name + " of rank " + std::to_string(worker->rank) + " (pid " +
                                      std::to_string(pid) + ") has expired: " + signal_name(timer.signo) +
                                      " was sent"});
}

void TimerWatch::arm_next() {
  has_tidied_ = false;
  dependencies_.timers.disarm(next_);
  const auto at = book_.next();
  next_ = at ? dependencies_.timers.arm(*at, *this) : TimerId{};
}

// Limits the number of warnings, because any process may write any number of bad requests to the FIFO.
void TimerWatch::warn(std::string sentence) {
  if (++warned_ > most_warnings) return;
  if (warned_ == most_warnings) sentence += "; further warnings about timers are not shown";
  config_.on_log({Severity::warning, std::move(sentence)});
}

}  // namespace dlaunch::agent
