// How an agent makes further connections for the blocks of long messages, and takes those of others.
//
// The worker that has made the connection to another one makes them, too, when the first long message has
// travelled there. The other one knows them by the id that the handshake of both claims, which is drawn for
// each pair of workers and covered by its proof.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/start_thread.h"
#include "runtime/rpc/agent.h"
#include "runtime/sockets/dial.h"

namespace dlaunch::internal {

namespace {

constexpr auto sides_limit = std::chrono::seconds(30);

void log_fewer(const WorkerContact& worker, const std::string& why) {
  log(LogLevel::info,
      "fewer connections than wanted carry long messages to " + describe(worker) + ": " + why);
}

}  // namespace

// On a thread of its own, as connect().
void Agent::add_sides(const WorkerContact& worker, const std::shared_ptr<Link>& link) {
  if (connections_ < 2 || link->within_host || link->has_asked_for_sides.exchange(true)) return;
  try {
    start_thread([self = shared_from_this(), &worker, link] { self->add_sides_now(worker, *link); }).detach();
  } catch (const DistBackendError& e) {
    log_fewer(worker, e.reason());
  }
}

void Agent::add_sides_now(const WorkerContact& worker, Link& link) {
  const Deadline deadline = deadline_after(sides_limit);
  const LossCheck check = [this] {
    if (ending_) throw DistNetworkError("this worker ends its remote calls");
  };
  try {
    for (int i = 0; i < connections_; ++i) {
      Descriptor socket = dial(worker.contact, link.pair, deadline, check, std::chrono::milliseconds(0));
      prepare(socket.get());
      if (!add_side(link, std::move(socket))) return;
    }
  } catch (const DistError& e) {
    if (!ending_) log_fewer(worker, e.reason());
  }
}

// False: it was not added, and is closed. Throws DistBackendError.
bool Agent::add_side(Link& link, Descriptor socket) {
  std::shared_ptr<StripeThreads> threads = stripe_threads();
  return threads && link.sides().add(std::move(socket), std::move(threads), [agent = weak_from_this()] {
    const std::shared_ptr<Agent> self = agent.lock();
    if (self) self->wake_at(deadline_after(SideLinks::grace));
  });
}

// A connection of another worker that has proved itself. False: it is none of these.
bool Agent::take_side(Descriptor& socket, const ProcessId& pair) {
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(mutex_);
    const auto at = pairs_.find(pair);
    if (at == pairs_.end()) return false;
    link = at->second.lock();
  }
  Descriptor taken = std::move(socket);
  try {
    if (link) (void)add_side(*link, std::move(taken));
  } catch (const DistBackendError& e) {
    log_fewer(worker(*link->caller), e.reason());
  }
  return true;
}

// False: another connection has this pair.
bool Agent::add_pair(const std::shared_ptr<Link>& link) {
  const std::lock_guard lock(mutex_);
  return pairs_.emplace(link->pair, link).second;
}

void Agent::remove_pair(const std::shared_ptr<Link>& link) {
  const std::lock_guard lock(mutex_);
  const auto at = pairs_.find(link->pair);
  if (at != pairs_.end() && at->second.lock() == link) pairs_.erase(at);
}

// Null: remote calls end. Throws DistBackendError.
std::shared_ptr<StripeThreads> Agent::stripe_threads() {
  const std::lock_guard lock(mutex_);
  if (ending_) return nullptr;
  if (!stripe_threads_) stripe_threads_ = std::make_shared<StripeThreads>();
  return stripe_threads_;
}

// A worker is lost with any of its connections.
void Agent::end_those_without_sides() {
  std::vector<std::shared_ptr<Link>> ended;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [token, link] : links_)
      if (link->has_lost_side()) ended.push_back(link);
  }
  for (const auto& link : ended) read(link, false);
}

}  // namespace dlaunch::internal
