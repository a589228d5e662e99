#include "runtime/rendezvous/join.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "dlaunch/debug.h"
#include "runtime/base/deadline.h"
#include "runtime/base/host_name.h"
#include "runtime/base/listed.h"
#include "store/base/entropy.h"

namespace dlaunch {

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

// Who has come, as a value in the store: host, process, door, whether it compares, and a number that no other
// process has.
struct Visitor {
  SignOfLife sign;
  std::string process;

  static std::string self(const Door* door) {
    return host_name() + "\n" + std::to_string(getpid()) + "\n" + (door ? door->place() : "") + "\n" +
           (get_debug_level() == DebugLevel::detail ? compares : "") + "\n" + std::to_string(draw_number());
  }
  static Visitor parse(const std::string& text) {
    const Halves host = Halves::of(text);
    const Halves process = Halves::of(host.rest);
    const Halves door = Halves::of(process.rest);
    return {{host.first, door.first, Halves::of(door.rest).first == compares}, process.first};
  }
};

// Of all, by rank: three lines each.
std::string in_lines(const std::vector<std::string>& visitors) {
  std::string text;
  for (const std::string& visitor : visitors) {
    const SignOfLife sign = Visitor::parse(visitor).sign;
    text += sign.host + "\n" + sign.door + "\n" + (sign.compares ? compares : "") + "\n";
  }
  return text;
}

std::vector<SignOfLife> signs_of(const std::string& text) {
  const std::vector<std::string> all = lines(text);
  std::vector<SignOfLife> signs;
  for (std::size_t i = 0; i + 2 < all.size(); i += 3)
    signs.push_back({all[i], all[i + 1], all[i + 2] == compares});
  return signs;
}

// How an attempt has ended, for all who take part in it: the first word counts, and more words may follow.
constexpr const char* met = "met";          // where they are
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
    if (joining.door && joining.rank >= 0)
      neighbours_ = looked_for_by(joining.rank, static_cast<int>(arrivals_.size()));
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
      return Halves::of(settle(store_, place_, met, in_lines(store_.multi_get(arrivals_))));
    }
    return await();
  }

  // By their names for messages.
  [[nodiscard]] std::vector<int> missing() {
    std::vector<int> result = absent(store_, arrivals_);
    missing_ = result.size();
    for (int& rank : result) rank = joining_.members[static_cast<std::size_t>(rank)];
    return result;
  }

  // This rank has seen who is missing. If it goes, and the store with it, it stays until the others who came
  // have seen it too.
  void let_see(bool goes) {
    const std::string seen_by_all = place_ + "seen by all";
    try {
      const std::int64_t came = static_cast<std::int64_t>(arrivals_.size() - missing_);
      if (store_.add(place_ + "seen", 1) == came) store_.set(seen_by_all, "");
      if (goes && joining_.serves_store) store_.wait({&seen_by_all, 1}, same_moment);
    } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch): one has more time left, or came since
    }
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
    const std::string self = Visitor::self(joining_.door);
    self_ = Visitor::parse(self).sign;
    const std::string there =
        store_.compare_set(arrivals_[static_cast<std::size_t>(joining_.rank)], "", self);
    if (there == self) return {};
    const Visitor other = Visitor::parse(there);
    return "process " + other.process + " on " + other.sign.host + " has joined as rank " +
           std::to_string(joining_.self) +
           " already; if it is of an earlier run, the store still holds that run's left-overs: remove them "
           "(the file of file://) or use another store";
  }

  Halves decided() { return store_.check({&outcome_, 1}) ? Halves::of(store_.get(outcome_)) : Halves{}; }

  Halves await() {
    constexpr auto turn = std::chrono::milliseconds(200);
    const bool looks = joining_.check || joining_.door;
    for (;;) {
      const auto left = time_left(joining_.deadline);
      try {
        store_.wait({&outcome_, 1}, looks ? std::min<std::chrono::milliseconds>(turn, left) : left);
        return Halves::of(store_.get(outcome_));
      } catch (const StoreError& e) {
        if (e.error().kind != ErrorKind::timeout) throw;
      }
      if (has_passed(joining_.deadline)) return Halves::of(settle(store_, place_, again, ""));
      try {
        if (joining_.check) joining_.check();
        if (joining_.door) look_for_others();
      } catch (const DistNetworkError& e) {
        // Who notices first may be gone when the others look; they are to hear of the one that was its
        // reason.
        const ErrorContext& place = e.context();
        return Halves::of(
            settle(store_, place_, lost, std::to_string(place.peer) + "\n" + place.host + "\n" + e.reason()));
      }
    }
  }

  void look_for_others() {
    joining_.door->dismiss();
    ask_who_has_come();
    for (const auto& [rank, sign] : come_) {
      if (!is_gone(sign, self_)) continue;
      throw DistNetworkError("its process ended while the ranks were joining",
                             {.peer = joining_.members[static_cast<std::size_t>(rank)], .host = sign.host});
    }
  }

  // Of some in turn, so that the store has little to do, however many ranks wait for long.
  void ask_who_has_come() {
    constexpr std::size_t at_once = 2;
    for (std::size_t i = 0; i < std::min(at_once, neighbours_.size()); ++i) {
      const int rank = neighbours_.front();
      std::rotate(neighbours_.begin(), neighbours_.begin() + 1, neighbours_.end());
      const std::string& arrival = arrivals_[static_cast<std::size_t>(rank)];
      if (!store_.check({&arrival, 1})) continue;
      come_.emplace_back(rank, Visitor::parse(store_.get(arrival)).sign);
      neighbours_.pop_back();
    }
  }

  Store& store_;
  const Joining& joining_;
  const std::string place_;
  const std::string outcome_;
  std::vector<std::string> arrivals_;  // by rank
  std::size_t missing_ = 0;            // when last asked
  SignOfLife self_;
  std::vector<int> neighbours_;  // those to look for of whom it is not known that they have come
  std::vector<std::pair<int, SignOfLife>> come_;  // the others of those
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
  throw JoinLost(host.rest, {.peer = std::atoi(peer.first.c_str()), .host = host.first});
}

}  // namespace

std::vector<SignOfLife> join(Store& store, const Joining& joining) {
  std::vector<int> missing;  // a moment ago, when somebody's time was up
  std::vector<int> left;
  for (int number = 0;; ++number) {
    Attempt attempt(store, joining, number);
    Halves outcome;
    try {
      outcome = attempt.take_part();
    } catch (const StoreError&) {
      // The one whose time was up served it, and this one's was nearly up.
      if (missing.empty()) throw;
      throw_too_late(joining, missing, {});
    }
    if (outcome.first == met) return signs_of(outcome.rest);
    if (outcome.first == refused) throw JoinRefused(outcome.rest);
    if (outcome.first == lost) throw_lost(outcome.rest);
    if (outcome.first.empty()) return {};
    missing = attempt.missing();
    attempt.let_see(has_passed(joining.deadline));
    if (has_passed(joining.deadline)) throw_too_late(joining, missing, left);
    if (time_left(joining.deadline) > same_moment) {
      missing.clear();
      continue;
    }
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

}  // namespace dlaunch
