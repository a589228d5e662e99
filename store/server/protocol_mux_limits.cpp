// Which connections the protocol mux ends, and when, so that unauthenticated peers cannot take every
// descriptor.
#include <algorithm>
#include <vector>

#include "store/server/protocol_mux.h"

namespace dlaunch::store {
namespace {

// Below these numbers neither one address nor all of them are limited.
constexpr std::size_t few_of_host = 8;
constexpr std::size_t few = 32;

constexpr std::string_view too_silent = "it has not identified itself in time";
constexpr std::string_view too_many_silent = "too many connections have not identified themselves";
constexpr std::string_view no_descriptors = "few descriptors are left, and it has not identified itself";

}  // namespace

std::size_t ProtocolMux::free_descriptors() const {
  return limits_.free_descriptors ? limits_.free_descriptors() : SIZE_MAX / 2;
}

// The maximum of unauthenticated connections and store clients together.
std::size_t ProtocolMux::budget() const {
  const std::size_t held = pending_.size() + (stores_ == nullptr ? 0 : stores_->connections());
  const std::size_t all = held + free_descriptors();
  return all - std::min(all, limits_.reserved);
}

// The host's unidentified connections, without the silent ones of old clients.
std::size_t ProtocolMux::spare_of(const std::string& host) const {
  const auto found = pending_of_host_.find(host);
  if (found == pending_of_host_.end()) return 0;
  const std::size_t explained = stores_ == nullptr ? 0 : stores_->companions_of(host);
  return found->second - std::min(found->second, explained);
}

// The oldest of those; the silent connections of old clients are assumed to be older.
ProtocolMux::PendingConnections::const_iterator ProtocolMux::oldest_spare(const std::string& host) const {
  auto oldest = pending_.end();
  std::vector<PendingConnections::const_iterator> silent;
  for (auto at = pending_.begin(); at != pending_.end(); ++at) {
    const PendingConnection& pending = at->second;
    if (pending.peer.host != host || !pending.counted) continue;
    if (pending.http.empty()) {
      silent.push_back(at);
    } else if (oldest == pending_.end() || pending.number < oldest->second.number) {
      oldest = at;
    }
  }
  const std::size_t explained = stores_ == nullptr ? 0 : stores_->companions_of(host);
  if (silent.size() <= explained) return oldest;
  const auto first = silent.begin() + static_cast<std::ptrdiff_t>(explained);
  std::nth_element(silent.begin(), first, silent.end(),
                   [](const auto& a, const auto& b) { return a->second.number < b->second.number; });
  return oldest == pending_.end() || (*first)->second.number < oldest->second.number ? *first : oldest;
}

ProtocolMux::PendingConnections::const_iterator ProtocolMux::oldest_spare() const {
  const std::string* most = nullptr;
  std::size_t count = 0;
  for (const auto& [host, most_pending] : pending_of_host_) {
    if (most_pending <= count) continue;  // it has no more than that
    const std::size_t spare = spare_of(host);
    if (spare <= count) continue;
    most = &host;
    count = spare;
  }
  return most == nullptr ? pending_.end() : oldest_spare(*most);
}

// After a new connection. Many ranks may connect in one instant and are served in the next: so young
// connections stay.
void ProtocolMux::enforce_limits(const std::string& host) {
  const auto end_if_old = [this](PendingConnections::const_iterator at) {
    if (at != pending_.end() && clock_.now() - at->second.came > limits_.grace)
      reject(at->first, too_many_silent);
  };
  if (pending_of_host_[host] > few_of_host &&
      spare_of(host) > std::min(limits_.unidentified_of_host, budget() / 4))
    end_if_old(oldest_spare(host));
  if (pending_.size() > few && pending_.size() > std::min(limits_.unidentified, budget() / 2))
    end_if_old(oldest_spare());
  enforce_reserve();
}

// New connections may use one half of the reserve, until they identify themselves.
void ProtocolMux::enforce_reserve() {
  while (true) {
    const std::size_t left = free_descriptors();
    if (left >= limits_.reserved) return;
    const auto at = oldest_spare();
    const bool is_old = at != pending_.end() && clock_.now() - at->second.came > limits_.grace;
    if (is_old || (pending_.size() > 1 && at != pending_.end() && left < limits_.reserved / 2)) {
      reject(at->first, no_descriptors);
    } else if (left >= limits_.reserved / 2 || !end_unauthenticated(TimePoint::max())) {
      return;
    }
  }
}

// A connection that has identified itself, but sent nothing whole yet.
bool ProtocolMux::end_unauthenticated(TimePoint silent_since) {
  return (agents_ != nullptr && agents_->end_unauthenticated(silent_since)) ||
         (stores_ != nullptr && stores_->end_unauthenticated(silent_since, nullptr));
}

// Empty: the store accepts another client.
std::string_view ProtocolMux::reason_against_client(const std::string& host) {
  if (!limits_.free_descriptors) return {};
  enforce_reserve();
  if (free_descriptors() < limits_.reserved / 2) return "the store has as many clients as descriptors allow";
  const auto is_full = [&] {
    const std::size_t count = stores_->connections_of(host);
    return count >= few && count >= budget() / 4 * 3;
  };
  while (is_full()) {
    if (!stores_->end_unauthenticated(TimePoint::max(), &host))
      return "the store has as many clients from its address as descriptors allow";
  }
  return {};
}

void ProtocolMux::on_timer(TimerId) {
  timer_ = {};
  const TimePoint now = clock_.now();
  std::vector<ConnId> slow;
  std::vector<std::string> hosts;
  for (const auto& [conn, pending] : pending_) {
    if (!pending.http.empty() && now - pending.came >= limits_.http_time) slow.push_back(conn);
  }
  for (const auto& [host, count] : pending_of_host_) hosts.push_back(host);
  for (const ConnId conn : slow) reject(conn, "its HTTP request is not complete in time");
  for (const std::string& host : hosts) {
    for (auto at = oldest_spare(host); at != pending_.end(); at = oldest_spare(host)) {
      if (now - at->second.came < limits_.silent_time) break;
      reject(at->first, too_silent);
    }
  }
  while (end_unauthenticated(now - limits_.silent_time)) {
  }
  watch_pending();
}

// Also watches dispatched connections that have not authenticated themselves yet.
void ProtocolMux::watch_pending() {
  const bool any =
      !pending_.empty() || agents_ != nullptr || (stores_ != nullptr && stores_->unauthenticated() > 0);
  if (!any) return timers_.disarm(std::exchange(timer_, {}));
  if (!timer_) timer_ = timers_.arm(clock_.now() + limits_.http_time, *this);
}

// It has identified itself, and may be silent.
void ProtocolMux::uncount(PendingConnection& pending) {
  const auto count = pending_of_host_.find(pending.peer.host);
  if (!std::exchange(pending.counted, false) || count == pending_of_host_.end()) return;
  if (--count->second == 0) pending_of_host_.erase(count);
}

void ProtocolMux::forget(ConnId conn) {
  const auto at = pending_.find(conn);
  if (at == pending_.end()) return;
  uncount(at->second);
  pending_.erase(at);
  watch_pending();
}

}  // namespace dlaunch::store
