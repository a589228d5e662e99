#include "runtime/join.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iterator>

#include "runtime/deadline.h"
#include "store/base/entropy.h"

namespace dlaunch {

namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "an unnamed host";
}

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

// Who has come, as a value in the store: host, process, and a number that no other process has.
struct Visitor {
  std::string host;
  std::string process;

  static std::string self() {
    return host_name() + "\n" + std::to_string(getpid()) + "\n" + std::to_string(draw_number());
  }
  static Visitor parse(const std::string& text) {
    const Halves halves = Halves::of(text);
    return {halves.first, Halves::of(halves.rest).first};
  }
};

// How an attempt has ended, for all who take part in it: the first word counts, and more words may follow.
constexpr const char* met = "met";          // the hosts
constexpr const char* again = "again";      // nothing: somebody's time was up
constexpr const char* refused = "refused";  // why
constexpr const char* lost = "lost";        // whose check failed first: peer, host, why

// The deadlines of one call on all ranks pass within this time.
constexpr auto same_moment = std::chrono::seconds(1);

std::string attempt_place(int number) { return std::to_string(number) + "/"; }

std::string settle(Store& store, const std::string& place, const std::string& word, const std::string& rest) {
  return store.compare_set(place + "outcome", "", word + "\n" + rest);
}

class Attempt {
 public:
  Attempt(Store& store, const Joining& joining, int number)
      : store_(store), joining_(joining), place_(attempt_place(number)), outcome_(place_ + "outcome") {
    for (std::size_t rank = 0; rank < joining.members.size(); ++rank) {
      arrivals_.push_back(place_ + "rank/" + std::to_string(rank));
    }
  }

  // Its outcome; none: this rank waits for nobody, and nothing is decided.
  Halves take_part() {
    const std::string differing = compare();
    if (!differing.empty()) {
      Halves outcome = Halves::of(settle(store_, place_, refused, differing));
      return outcome.first == met ? Halves{refused, differing} : outcome;
    }
    if (joining_.rank < 0) return decided();
    const std::string there = arrive();
    if (!there.empty()) {
      Halves outcome = decided();
      if (!outcome.first.empty() && outcome.first != met) return outcome;
      throw DistError(there);
    }
    // The one who counts to the end tells all: the work of the store grows with the ranks, not with their
    // square.
    if (store_.add(place_ + "arrived", 1) == static_cast<std::int64_t>(arrivals_.size())) {
      std::string hosts;
      for (const std::string& visitor : store_.multi_get(arrivals_))
        hosts += Visitor::parse(visitor).host + "\n";
      return Halves::of(settle(store_, place_, met, hosts));
    }
    return await();
  }

  // By their names for messages.
  [[nodiscard]] std::vector<int> missing() {
    std::vector<int> result = absent(store_, arrivals_);
    for (int& rank : result) rank = joining_.members[static_cast<std::size_t>(rank)];
    return result;
  }

 private:
  // How this rank's statement differs from the first that was made; empty if it does not.
  std::string compare() {
    const std::string own = std::to_string(joining_.self) + "\n" + joining_.statement;
    const Halves first = Halves::of(store_.compare_set(place_ + "statement", "", own));
    if (first.rest == joining_.statement) return {};
    return "the ranks call " + joining_.call + " differently: rank " + first.first + " with " + first.rest +
           ", rank " + std::to_string(joining_.self) + " with " + joining_.statement;
  }

  // What is wrong if somebody is there already as this rank.
  std::string arrive() {
    const std::string self = Visitor::self();
    const std::string there =
        store_.compare_set(arrivals_[static_cast<std::size_t>(joining_.rank)], "", self);
    if (there == self) return {};
    const Visitor other = Visitor::parse(there);
    return "process " + other.process + " on " + other.host + " has joined as rank " +
           std::to_string(joining_.self) +
           " already; if it is of an earlier run, the store still holds that run's left-overs: remove them "
           "(the file of file://) or use another store";
  }

  Halves decided() { return store_.check({&outcome_, 1}) ? Halves::of(store_.get(outcome_)) : Halves{}; }

  Halves await() {
    constexpr auto turn = std::chrono::milliseconds(200);
    for (;;) {
      const auto left = time_left(joining_.deadline);
      try {
        store_.wait({&outcome_, 1}, joining_.check ? std::min<std::chrono::milliseconds>(turn, left) : left);
        return Halves::of(store_.get(outcome_));
      } catch (const StoreError& e) {
        if (e.error().kind != ErrorKind::timeout) throw;
      }
      if (has_passed(joining_.deadline)) return Halves::of(settle(store_, place_, again, ""));
      try {
        if (joining_.check) joining_.check();
      } catch (const DistNetworkError& e) {
        // Who notices first may be gone when the others look; they are to hear of the one that was its
        // reason.
        const ErrorContext& place = e.context();
        return Halves::of(
            settle(store_, place_, lost, std::to_string(place.peer) + "\n" + place.host + "\n" + e.reason()));
      }
    }
  }

  Store& store_;
  const Joining& joining_;
  const std::string place_;
  const std::string outcome_;
  std::vector<std::string> arrivals_;  // by rank
};

void find_absent(Store& store, std::span<const std::string> keys, int first, std::vector<int>& found) {
  if (keys.empty() || store.check(keys)) return;
  if (keys.size() == 1) {
    found.push_back(first);
    return;
  }
  const std::size_t half = keys.size() / 2;
  find_absent(store, keys.first(half), first, found);
  find_absent(store, keys.subspan(half), first + static_cast<int>(half), found);
}

// `left`: came, and were gone when the deadline passed, since their own had passed a moment before.
[[noreturn]] void throw_too_late(const Joining& joining, std::vector<int> missing,
                                 const std::vector<int>& left) {
  const auto has_come = [&left](int rank) { return std::ranges::find(left, rank) != left.end(); };
  if (!std::ranges::all_of(missing, has_come)) std::erase_if(missing, has_come);
  const std::string text = "not all ranks came before the deadline";
  // None: the last one came while this one was going.
  if (missing.empty()) throw DistNetworkError(text);
  const auto first = static_cast<std::size_t>(missing.front());
  throw DistNetworkError(
      text + "; missing: " + name_ranks(missing) + " of " + std::to_string(joining.members.size()),
      {.peer = missing.front(), .host = first < joining.hosts.size() ? joining.hosts[first] : ""});
}

[[noreturn]] void throw_lost(const std::string& text) {
  const Halves peer = Halves::of(text);
  const Halves host = Halves::of(peer.rest);
  throw DistNetworkError(host.rest, {.peer = std::atoi(peer.first.c_str()), .host = host.first});
}

}  // namespace

std::vector<std::string> join(Store& store, const Joining& joining) {
  std::vector<int> left;
  for (int number = 0;; ++number) {
    Attempt attempt(store, joining, number);
    const Halves outcome = attempt.take_part();
    if (outcome.first == met) return lines(outcome.rest);
    if (outcome.first == refused) throw JoinRefused(outcome.rest);
    if (outcome.first == lost) throw_lost(outcome.rest);
    if (outcome.first.empty()) return {};
    if (time_left(joining.deadline) > same_moment) continue;
    const std::vector<int> missing = attempt.missing();
    if (has_passed(joining.deadline)) throw_too_late(joining, missing, left);
    std::ranges::copy_if(joining.members, std::back_inserter(left),
                         [&](int rank) { return std::ranges::find(missing, rank) == missing.end(); });
  }
}

void refuse_to_join(Store& store, int self, const std::string& why) {
  const std::string text = "rank " + std::to_string(self) + " cannot take part: " + why;
  for (int number = 0; Halves::of(settle(store, attempt_place(number), refused, text)).first == again;)
    ++number;
}

std::vector<int> absent(Store& store, std::span<const std::string> keys) {
  std::vector<int> found;
  find_absent(store, keys, 0, found);
  return found;
}

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text;
}

}  // namespace dlaunch
