#include "runtime/rendezvous/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "dlaunch/debug.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/host_name.h"
#include "store/base/random.h"

namespace dlaunch::internal {

namespace {

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

// The first line, and the rest.
struct Halves {
  std::string first;
  std::string rest;

  static Halves of(const std::string& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    return {text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
  }
};

constexpr const char* compares = "compares";

// A registered rank, as a value in the store: host, pid, liveness address, whether it compares its calls, and
// a number that no other process has.
struct Visitor {
  PeerInfo info;
  std::string process;

  static std::string self(const LivenessSocket* liveness_socket) {
    return host_name() + "\n" + std::to_string(getpid()) + "\n" +
           (liveness_socket ? liveness_socket->address() : "") + "\n" +
           (get_debug_level() == DebugLevel::detail ? compares : "") + "\n" + std::to_string(random_u64());
  }
  static Visitor parse(const std::string& text) {
    const Halves host = Halves::of(text);
    const Halves process = Halves::of(host.rest);
    const Halves liveness_socket = Halves::of(process.rest);
    return {{host.first, liveness_socket.first, Halves::of(liveness_socket.rest).first == compares},
            process.first};
  }
};

// All ranks' data, by rank: three lines each.
std::string in_lines(const std::vector<std::string>& visitors) {
  std::string text;
  for (const std::string& visitor : visitors) {
    const PeerInfo info = Visitor::parse(visitor).info;
    text += info.host + "\n" + info.liveness_address + "\n" + (info.compares ? compares : "") + "\n";
  }
  return text;
}

std::vector<PeerInfo> peers_of(const std::string& text) {
  const std::vector<std::string> all = lines(text);
  std::vector<PeerInfo> peers;
  for (std::size_t i = 0; i + 2 < all.size(); i += 3)
    peers.push_back({all[i], all[i + 1], all[i + 2] == compares});
  return peers;
}

// The outcome of an attempt, for all its ranks: the first line, and the data that follow it.
constexpr const char* met = "met";          // in_lines()
constexpr const char* again = "again";      // a rank's deadline has passed; no data
constexpr const char* refused = "refused";  // the reason
constexpr const char* lost = "lost";        // the first check that failed: peer, host, reason

// The deadlines of one call on all ranks pass within this time.
constexpr auto same_moment = std::chrono::seconds(1);

std::string attempt_place(int number) { return std::to_string(number) + "/"; }

std::string settle(Store& store, const std::string& place, const std::string& word, const std::string& rest) {
  return store.compare_set(place + "outcome", "", word + "\n" + rest);
}

class Attempt {
 public:
  Attempt(Store& store, const RendezvousOptions& options, int number)
      : store_(store), options_(options), place_(attempt_place(number)), outcome_(place_ + "outcome") {
    for (std::size_t rank = 0; rank < options.members.size(); ++rank) {
      arrivals_.push_back(place_ + "rank/" + std::to_string(rank));
    }
    if (options.liveness_socket && options.rank >= 0)
      neighbours_ = monitored_by(options.rank, static_cast<int>(arrivals_.size()));
  }

  // The outcome; none: this rank does not wait, and there is no outcome yet.
  Halves take_part() {
    const std::string differing = compare();
    if (!differing.empty()) {
      Halves outcome = Halves::of(settle(store_, place_, refused, differing));
      return outcome.first == met ? Halves{refused, differing} : outcome;
    }
    if (options_.rank < 0) return decided();
    const std::string there = arrive();
    if (!there.empty()) {
      Halves outcome = decided();
      if (!outcome.first.empty() && outcome.first != met) return outcome;
      throw DistError(there);
    }
    // The last rank publishes the outcome: the store's work grows with the number of ranks, not with its
    // square.
    if (store_.add(place_ + "arrived", 1) == static_cast<std::int64_t>(arrivals_.size())) {
      return Halves::of(settle(store_, place_, met, in_lines(store_.multi_get(arrivals_))));
    }
    return await();
  }

  // As RendezvousOptions::members numbers them.
  [[nodiscard]] std::vector<int> missing() {
    std::vector<int> result = absent_keys(store_, arrivals_);
    missing_ = result.size();
    for (int& rank : result) rank = options_.members[static_cast<std::size_t>(rank)];
    return result;
  }

  // This rank has read which ranks are missing. If it gives up, and the store ends with it, it waits until
  // the other registered ranks have read it too.
  void let_see(bool goes) {
    const std::string seen_by_all = place_ + "seen by all";
    try {
      const std::int64_t came = static_cast<std::int64_t>(arrivals_.size() - missing_);
      if (store_.add(place_ + "seen", 1) == came) store_.set(seen_by_all, "");
      if (goes && options_.serves_store) store_.wait({&seen_by_all, 1}, same_moment);
    } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch): one has time left, or registered since
    }
  }

 private:
  // How this rank's statement differs from the first that was made; empty if it does not.
  std::string compare() {
    const std::string own = std::to_string(options_.self) + "\n" + options_.statement;
    const Halves first = Halves::of(store_.compare_set(place_ + "statement", "", own));
    if (first.rest == options_.statement) return {};
    return "the ranks call " + options_.call + " differently: rank " + first.first + " with " + first.rest +
           ", rank " + std::to_string(options_.self) + " with " + options_.statement;
  }

  // An error text if another process has registered as this rank; else empty.
  std::string arrive() {
    const std::string self = Visitor::self(options_.liveness_socket);
    self_ = Visitor::parse(self).info;
    const std::string there =
        store_.compare_set(arrivals_[static_cast<std::size_t>(options_.rank)], "", self);
    if (there == self) return {};
    const Visitor other = Visitor::parse(there);
    return "two processes have joined as rank " + std::to_string(options_.self) + ": pid " + other.process +
           " on " + other.info.host + " and this one, pid " + std::to_string(getpid()) + " on " + self_.host +
           ". If the first is from an earlier run, its keys are still in the store: delete the "
           "file of file://, or use another store";
  }

  Halves decided() { return store_.check({&outcome_, 1}) ? Halves::of(store_.get(outcome_)) : Halves{}; }

  Halves await() {
    constexpr auto turn = std::chrono::milliseconds(200);
    const bool looks = options_.check || options_.liveness_socket;
    for (;;) {
      const auto left = time_left(options_.deadline);
      try {
        store_.wait({&outcome_, 1}, looks ? std::min<std::chrono::milliseconds>(turn, left) : left);
        return Halves::of(store_.get(outcome_));
      } catch (const StoreError& e) {
        if (e.error().kind != ErrorKind::timeout) throw;
      }
      if (has_passed(options_.deadline)) return Halves::of(settle(store_, place_, again, ""));
      try {
        if (options_.check) options_.check();
        if (options_.liveness_socket) look_for_others();
      } catch (const DistNetworkError& e) {
        // The rank that detects a loss first may end before the others check it: publish the loss that was
        // the cause.
        const ErrorContext& place = e.context();
        return Halves::of(
            settle(store_, place_, lost, std::to_string(place.peer) + "\n" + place.host + "\n" + e.reason()));
      }
    }
  }

  void look_for_others() {
    options_.liveness_socket->accept_and_close();
    ask_who_has_come();
    for (const auto& [rank, info] : come_) {
      if (!is_gone(info, self_)) continue;
      throw DistNetworkError("its process ended while the ranks were joining",
                             {.peer = options_.members[static_cast<std::size_t>(rank)], .host = info.host});
    }
  }

  // A few ranks at a time, to keep the load of the store small while many ranks wait.
  void ask_who_has_come() {
    constexpr std::size_t at_once = 2;
    for (std::size_t i = 0; i < std::min(at_once, neighbours_.size()); ++i) {
      const int rank = neighbours_.front();
      std::rotate(neighbours_.begin(), neighbours_.begin() + 1, neighbours_.end());
      const std::string& arrival = arrivals_[static_cast<std::size_t>(rank)];
      if (!store_.check({&arrival, 1})) continue;
      come_.emplace_back(rank, Visitor::parse(store_.get(arrival)).info);
      neighbours_.pop_back();
    }
  }

  Store& store_;
  const RendezvousOptions& options_;
  const std::string place_;
  const std::string outcome_;
  std::vector<std::string> arrivals_;  // by rank
  std::size_t missing_ = 0;            // when last asked
  PeerInfo self_;
  std::vector<int> neighbours_;                 // monitored ranks that are not known to have registered
  std::vector<std::pair<int, PeerInfo>> come_;  // monitored ranks that have registered
};

void find_missing(Store& store, std::span<const std::string> keys, int first, std::vector<int>& found) {
  if (keys.empty() || store.check(keys)) return;
  if (keys.size() == 1) {
    found.push_back(first);
    return;
  }
  const std::size_t half = keys.size() / 2;
  find_missing(store, keys.first(half), first, found);
  find_missing(store, keys.subspan(half), first + static_cast<int>(half), found);
}

// `left`: ranks that registered, and withdrew since their own deadline passed a moment earlier.
[[noreturn]] void throw_too_late(const RendezvousOptions& options, std::vector<int> missing,
                                 const std::vector<int>& left) {
  const auto has_come = [&left](int rank) { return std::ranges::find(left, rank) != left.end(); };
  if (!std::ranges::all_of(missing, has_come)) std::erase_if(missing, has_come);
  const std::string text = "not all ranks came before the deadline";
  // None: the last rank registered while this one withdrew.
  if (missing.empty()) throw DistNetworkError(text);
  const auto first = static_cast<std::size_t>(missing.front());
  throw DistNetworkError(
      text + "; missing: " + describe_ranks(missing) + " of " + std::to_string(options.members.size()),
      {.peer = missing.front(), .host = first < options.hosts.size() ? options.hosts[first] : ""});
}

[[noreturn]] void throw_lost(const std::string& text) {
  const Halves peer = Halves::of(text);
  const Halves host = Halves::of(peer.rest);
  throw RendezvousPeerLost(host.rest, {.peer = std::atoi(peer.first.c_str()), .host = host.first});
}

}  // namespace

std::vector<PeerInfo> rendezvous(Store& store, const RendezvousOptions& options) {
  std::vector<int> missing;  // at the latest attempt's end, if another rank's deadline passed
  std::vector<int> left;
  for (int number = 0;; ++number) {
    Attempt attempt(store, options, number);
    Halves outcome;
    try {
      outcome = attempt.take_part();
    } catch (const StoreError&) {
      // The rank whose deadline passed served the store, and this rank's deadline is near.
      if (missing.empty()) throw;
      throw_too_late(options, missing, {});
    }
    if (outcome.first == met) return peers_of(outcome.rest);
    if (outcome.first == refused) throw RendezvousRejected(outcome.rest);
    if (outcome.first == lost) throw_lost(outcome.rest);
    if (outcome.first.empty()) return {};
    missing = attempt.missing();
    attempt.let_see(has_passed(options.deadline));
    if (has_passed(options.deadline)) throw_too_late(options, missing, left);
    if (time_left(options.deadline) > same_moment) {
      missing.clear();
      continue;
    }
    std::ranges::copy_if(options.members, std::back_inserter(left),
                         [&](int rank) { return std::ranges::find(missing, rank) == missing.end(); });
  }
}

void reject_rendezvous(Store& store, int self, const std::string& why) {
  const std::string text = "rank " + std::to_string(self) + " cannot take part: " + why;
  for (int number = 0; Halves::of(settle(store, attempt_place(number), refused, text)).first == again;)
    ++number;
}

std::vector<int> absent_keys(Store& store, std::span<const std::string> keys) {
  std::vector<int> found;
  find_missing(store, keys, 0, found);
  return found;
}

}  // namespace dlaunch::internal
