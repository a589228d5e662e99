#include "agent/model/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "agent/model/rank_words.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

// One group in which a rank waits.
struct Jam {
  const GroupProgress* group = nullptr;
  std::uint64_t front = 0;   // the first collective that a rank waits in
  Ranks waiting;             // in it
  Ranks absent;              // have not entered it
  Ranks late;                // their devices have not come to it
  Ranks on_device;           // their devices are in it, or in a later one
  std::vector<int> unknown;  // without a report; only the first ones
  std::size_t unknown_count = 0;
  Duration waited{};  // the longest

  [[nodiscard]] bool is_live() const {
    return std::any_of(waiting.begin(), waiting.end(), [](const RankProgress* r) { return !r->left; });
  }
};

std::vector<GroupProgress> merged(std::vector<GroupProgress> group_progress) {
  std::vector<GroupProgress> groups;
  std::map<std::uint64_t, std::size_t> places;  // by identity
  for (GroupProgress& progress : group_progress) {
    const auto [place, is_new] = places.try_emplace(progress.identity, groups.size());
    if (is_new) {
      groups.push_back(std::move(progress));
    } else {
      auto& here = groups[place->second].here;
      here.insert(here.end(), progress.here.begin(), progress.here.end());
    }
  }
  for (GroupProgress& group : groups) {
    group.name = sanitize_for_terminal(group.name);
    std::stable_sort(group.here.begin(), group.here.end(),
                     [](const RankProgress& a, const RankProgress& b) { return a.rank < b.rank; });
    const auto same = std::unique(group.here.begin(), group.here.end(),
                                  [](const auto& a, const auto& b) { return a.rank == b.rank; });
    group.here.erase(same, group.here.end());
  }
  return groups;
}

// The members without a report, as far as they can be named. Another node's description of a group may be
// anything: each run is read only while it yields unknown ranks.
void find_unknown(const GroupProgress& group, Jam& jam) {
  jam.unknown_count = group.size > group.here.size() ? group.size - group.here.size() : 0;
  if (jam.unknown_count == 0) return;
  std::set<int> known;
  for (const RankProgress& rank : group.here) known.insert(rank.rank);
  for (const page::Run& run : group.ranks) {
    if (run.stride == 0 && run.count > 1) return;
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t rank = run.first + run.stride * i;
      if (jam.unknown.size() > shown_ranks || rank != static_cast<int>(rank)) return;
      if (!known.contains(static_cast<int>(rank))) jam.unknown.push_back(static_cast<int>(rank));
    }
  }
}

std::vector<Jam> jams_of(const std::vector<GroupProgress>& groups) {
  std::vector<Jam> jams;
  for (const GroupProgress& group : groups) {
    Jam jam;
    jam.group = &group;
    for (const RankProgress& rank : group.here) {
      if (rank.waits() && (jam.front == 0 || rank.at() < jam.front)) jam.front = rank.at();
    }
    if (jam.front == 0) continue;
    for (const RankProgress& rank : group.here) {
      if (rank.entered < jam.front) jam.absent.push_back(&rank);
      if (rank.waits() && rank.on_device == page::Record::begun) jam.on_device.push_back(&rank);
      if (!rank.waits() || rank.at() != jam.front) continue;
      jam.waiting.push_back(&rank);
      jam.waited = std::max(jam.waited, rank.waited);
      if (rank.is_late_on_device()) jam.late.push_back(&rank);
    }
    find_unknown(group, jam);
    jams.push_back(std::move(jam));
  }
  // Groups that all have left explain nothing while others are in use.
  if (std::any_of(jams.begin(), jams.end(), [](const Jam& jam) { return jam.is_live(); }))
    std::erase_if(jams, [](const Jam& jam) { return !jam.is_live(); });
  return jams;
}

// "from rank 3", "to rank 1", "from any rank".
std::string peer_of(page::Operation message, int peer) {
  return (message == page::Operation::send ? "to " : "from ") +
         (peer < 0 ? "any rank" : "rank " + std::to_string(peer));
}
std::string peer_of(const RankProgress& rank) { return peer_of(rank.operation, rank.peer); }

// The operation of the first waiting rank whose operation is known.
page::Operation operation_of(const Jam& jam) {
  for (const RankProgress* rank : jam.waiting) {
    if (rank->operation != page::Operation::none) return rank->operation;
  }
  return page::Operation::none;
}

// "all_reduce #4182 of group default".
std::string collective(const Jam& jam) {
  return name_of(operation_of(jam)) + " #" + std::to_string(jam.front) + " of group " + jam.group->name;
}

// A rank that computes may come this late: nothing is wrong yet.
bool may_still_come(const Jam& jam) {
  constexpr Duration moment = std::chrono::milliseconds(100);
  const auto waits_on = [](const RankProgress* rank) { return rank->inside; };
  const auto runs = [](const RankProgress* rank) {
    return rank->condition == Condition::runs && !rank->left && rank->how_ended.empty();
  };
  return jam.waited < moment && std::all_of(jam.waiting.begin(), jam.waiting.end(), waits_on) &&
         std::all_of(jam.absent.begin(), jam.absent.end(), runs);
}

std::string who_never_came(const Jam& jam) {
  const std::vector<int> absent = numbers(jam.absent);
  const std::size_t waiting = jam.waiting.size();
  const bool rest = absent.size() + waiting == jam.group->size;
  const std::string have_not = absent.size() == 1 ? " has not entered " : " have not entered ";
  std::string text =
      describe(absent, absent.size()) +
      (may_still_come(jam) ? have_not + collective(jam) + " yet" : " never entered " + collective(jam)) +
      "; ";
  if (rest) {
    text += waiting == 1 ? "the other one has" : "the other " + std::to_string(waiting) + " have";
  } else {
    text += waiting == 1 ? "one other has" : std::to_string(waiting) + " others have";
  }
  return text + " waited " + to_words(jam.waited);
}

std::string who_waits(const Jam& jam) {
  const std::size_t waiting = jam.waiting.size();
  const std::string words = " in " + collective(jam) + " for " + to_words(jam.waited);
  if (waiting == jam.group->size) return "all " + std::to_string(waiting) + " ranks have been" + words;
  return describe(numbers(jam.waiting), waiting) + (waiting == 1 ? " has been" : " have been") + words;
}

// All have entered, and it makes no progress because a process is stopped. Others may be in later
// collectives.
std::string who_is_stopped(const Jam& jam, const std::vector<int>& stopped) {
  return describe(stopped, stopped.size()) + (stopped.size() == 1 ? " is" : " are") + " stopped in " +
         collective(jam) + ", for which ranks have waited " + to_words(jam.waited);
}

bool is_any_stopped(const Jam& jam) { return !in_condition(jam.waiting, Condition::stopped).empty(); }

// All have called it, none is stopped, and some devices wait in it for the others.
bool is_held_up_by_devices(const Jam& jam) {
  return jam.absent.empty() && !jam.late.empty() && !jam.on_device.empty() && !is_any_stopped(jam);
}

// The devices of all are in the same operation.
bool is_on_all_devices(const Jam& jam) {
  return jam.on_device.size() == jam.group->size && jam.waiting.size() == jam.group->size &&
         !is_any_stopped(jam) && std::ranges::all_of(jam.waiting, [&](const RankProgress* rank) {
           return rank->operation == jam.waiting.front()->operation;
         });
}

std::string whose_device_is_late(const Jam& jam) {
  const bool is_one = jam.late.size() == 1;
  const std::size_t waiting = jam.on_device.size();
  Duration waited{};
  for (const RankProgress* rank : jam.on_device) waited = std::max(waited, rank->waited);
  std::string text = describe(numbers(jam.late), jam.late.size()) + (is_one ? " has" : " have") + " called " +
                     collective(jam) +
                     (is_one ? ", but its GPU has not come to it: it still works on what the program gave it "
                               "before; "
                             : ", but their GPUs have not come to it: they still work on what the program "
                               "gave them before; ");
  if (jam.late.size() + waiting < jam.group->size) {
    text += describe(numbers(jam.on_device), waiting);
  } else {
    text += waiting == 1 ? "the other one" : "the other " + std::to_string(waiting);
  }
  return text + (waiting == 1 ? " waits for " : " wait for ") + (is_one ? "it" : "them") +
         (waiting == 1 ? " on its GPU" : " on their GPUs") + ", for up to " + to_words(waited);
}

// Other operations called with this number, and the ranks that called them.
std::string who_differs(const Jam& jam) {
  std::string text;
  std::map<page::Operation, std::vector<int>> callers;
  for (const RankProgress* rank : jam.waiting) callers[rank->operation].push_back(rank->rank);
  callers.erase(operation_of(jam));
  callers.erase(page::Operation::none);
  for (const auto& [operation, ranks] : callers) {
    text += "; " + describe(ranks, ranks.size()) + (ranks.size() == 1 ? " is" : " are") + " in " +
            name_of(operation) + " instead";
  }
  return text;
}

// The ranks that do not come, or whose devices do not, because they wait for a message.
std::string who_waits_for_messages(const Jam& jam) {
  std::string text;
  std::size_t shown = 0;
  const auto add = [&](const RankProgress& rank, page::Operation message) {
    if (!page::is_point_to_point(message) || ++shown > shown_ranks) return;
    text += "; rank " + std::to_string(rank.rank) + " is in " + name_of(message) + " " +
            peer_of(message, rank.peer);
  };
  for (const RankProgress* rank : jam.absent) {
    if (rank->waits_otherwise()) add(*rank, rank->operation);
  }
  for (const RankProgress* rank : jam.waiting) add(*rank, rank->before);
  return text;
}

std::string sentence_of(const Jam& jam) {
  Ranks all = jam.absent;
  all.insert(all.end(), jam.waiting.begin(), jam.waiting.end());
  const std::vector<int> stopped = in_condition(all, Condition::stopped);
  const bool is_held_up = jam.absent.empty() && jam.unknown_count == 0 && !stopped.empty();
  std::string text;
  if (is_held_up) {
    text = who_is_stopped(jam, stopped);
  } else if (is_held_up_by_devices(jam)) {
    text = whose_device_is_late(jam);
  } else {
    text = (jam.absent.empty() ? who_waits(jam) : who_never_came(jam)) + and_late_on_device(jam.late);
    if (is_on_all_devices(jam)) text += "; all GPUs are in it";
  }
  text += who_differs(jam) + who_waits_for_messages(jam) + who_calls_where(jam.waiting, jam.absent);
  if (!is_held_up) text += and_stopped(stopped);
  text += who_has_ended(jam.absent);
  if (jam.unknown_count > 0) {
    text += "; nothing is known of " + (jam.unknown.empty() ? std::to_string(jam.unknown_count) + " ranks"
                                                            : describe(jam.unknown, jam.unknown_count));
  }
  return text;
}

// One operation in which ranks wait, if none waits in a collective.
struct OtherWait {
  const GroupProgress* group = nullptr;
  page::Operation operation = page::Operation::none;
  Ranks waiting;
  // Missing from an operation that all members must enter; for messages, the members that are waited for.
  Ranks absent;
  Duration waited{};  // the longest
};

bool is_needed(const OtherWait& wait, const RankProgress& rank) {
  return std::any_of(wait.waiting.begin(), wait.waiting.end(), [&](const RankProgress* waiting) {
    return waiting->needs_all || waiting->peer == rank.rank;
  });
}

std::vector<OtherWait> other_waits(const std::vector<GroupProgress>& groups) {
  std::vector<OtherWait> waits;
  for (const GroupProgress& group : groups) {
    std::map<page::Operation, OtherWait> by_operation;
    for (const RankProgress& rank : group.here) {
      if (!rank.waits_otherwise() || rank.left) continue;
      OtherWait& wait = by_operation[rank.operation];
      wait.waiting.push_back(&rank);
      wait.waited = std::max(wait.waited, rank.waited);
    }
    for (auto& [operation, wait] : by_operation) {
      wait.group = &group;
      wait.operation = operation;
      for (const RankProgress& rank : group.here) {
        if (rank.operation != operation && is_needed(wait, rank)) wait.absent.push_back(&rank);
      }
      waits.push_back(std::move(wait));
    }
  }
  return waits;
}

// "ranks 1 and 2 wait for the key 'a' of a store; rank 3 waits for the key 'b' of a store, for 1 min 0 s";
// "rank 0 waits for the answer of worker ps to 'add', for 31 s".
std::string who_waits_by_state(const OtherWait& wait) {
  constexpr std::size_t longest = 100;
  constexpr std::size_t most = 4;
  std::map<std::string, std::vector<int>> states;
  for (const RankProgress* rank : wait.waiting) states[rank->state].push_back(rank->rank);
  std::string text;
  std::size_t shown = 0;
  for (const auto& [state, ranks] : states) {
    if (++shown > most) break;
    std::string words = shortened(sanitize_for_terminal(state), longest);
    if (ranks.size() > 1 && words.starts_with("waits ")) words.erase(4, 1);
    text += (text.empty() ? "" : "; ") + describe(ranks, ranks.size()) + " " + words;
  }
  return text + ", for " + to_words(wait.waited);
}

// "rank 1 has been in recv from rank 0 of group default for 5 s", "ranks 0 and 1 have been in recv of group
// default for 5 s: 0 from rank 1, 1 from any rank".
std::string sentence_of(const OtherWait& wait) {
  if (wait.operation == page::Operation::store_wait || wait.operation == page::Operation::remote_call) {
    return who_waits_by_state(wait) + and_stopped(in_condition(wait.absent, Condition::stopped)) +
           who_has_ended(wait.absent);
  }
  const bool is_message = page::is_point_to_point(wait.operation);
  const bool is_one = wait.waiting.size() == 1;
  std::string text = describe(numbers(wait.waiting), wait.waiting.size()) + (is_one ? " has" : " have") +
                     " been in " + name_of(wait.operation);
  if (is_message && is_one) text += " " + peer_of(*wait.waiting.front());
  if (wait.group->identity != GroupProgress::outside) text += " of group " + wait.group->name;
  text += " for " + to_words(wait.waited);
  if (is_message && !is_one) {
    const std::size_t shown = std::min(wait.waiting.size(), shown_ranks);
    for (std::size_t i = 0; i < shown; ++i) {
      text +=
          (i == 0 ? ": " : ", ") + std::to_string(wait.waiting[i]->rank) + " " + peer_of(*wait.waiting[i]);
    }
  }
  if (!wait.absent.empty() && !is_message) {
    text += "; " + describe(numbers(wait.absent), wait.absent.size()) +
            (wait.absent.size() == 1 ? " has" : " have") + " not come";
  }
  Ranks late;
  std::ranges::copy_if(wait.waiting, std::back_inserter(late), &RankProgress::is_late_on_device);
  text += and_late_on_device(late) + who_calls_where(wait.waiting, wait.absent);
  text += and_stopped(in_condition(wait.absent, Condition::stopped)) + who_has_ended(wait.absent);
  return text;
}

// The ranks that this group waits for, without those that wait elsewhere.
std::vector<int> missing_in(const Jam& jam, const std::set<int>& waiting) {
  std::vector<int> missing;
  for (const int rank : numbers(jam.absent)) {
    if (!waiting.contains(rank)) missing.push_back(rank);
  }
  // All have entered, and it makes no progress: a stopped process holds it up.
  if (jam.absent.empty()) missing = in_condition(jam.waiting, Condition::stopped);
  if (!is_held_up_by_devices(jam)) return missing;
  for (const int rank : numbers(jam.late)) {
    if (!waiting.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

// A rank whose device has not come to what it has called waits for none.
void add_waiting(const Ranks& ranks, std::set<int>& waiting) {
  for (const RankProgress* rank : ranks) {
    if (!rank->is_late_on_device()) waiting.insert(rank->rank);
  }
}

// `missing`: of all groups.
Diagnosis::Devices devices_in(const Jam& jam, const std::set<int>& missing) {
  if (is_on_all_devices(jam)) return Diagnosis::Devices::all_in_it;
  const bool is_late = is_held_up_by_devices(jam) && !missing.empty() &&
                       std::ranges::find(jam.late, *missing.begin(), &RankProgress::rank) != jam.late.end();
  return is_late ? Diagnosis::Devices::some_late : Diagnosis::Devices::not_known;
}

// When both ends wait for an acknowledgement, it is not known in which direction packets are lost: the end
// whose data arrive gets no acknowledgement either.
void find_stalled_link(const std::vector<GroupProgress>& groups, Diagnosis& diagnosis) {
  std::map<std::pair<int, int>, StalledLink> links;  // by the ranks that send and receive
  for (const GroupProgress& group : groups) {
    for (const RankProgress& rank : group.here) {
      if (rank.link.peer >= 0) links[{rank.rank, rank.link.peer}] = rank.link;
    }
  }
  const auto worst = std::max_element(links.begin(), links.end(), [](const auto& a, const auto& b) {
    return std::tuple(!a.second.is_full, a.second.silent) < std::tuple(!b.second.is_full, b.second.silent);
  });
  if (worst == links.end()) return;
  LinkStall& stall = diagnosis.link.emplace();
  stall.from = worst->first.first;
  stall.link = worst->second;
  const auto reverse = links.find({worst->first.second, worst->first.first});
  stall.both_ways = !stall.link.is_full && reverse != links.end() && !reverse->second.is_full;
}

}  // namespace

Diagnosis diagnose(std::vector<GroupProgress> group_progress) {
  const std::vector<GroupProgress> groups = merged(std::move(group_progress));
  std::vector<Jam> jams = jams_of(groups);
  std::set<int> waiting;
  for (const Jam& jam : jams) add_waiting(jam.waiting, waiting);
  std::stable_sort(jams.begin(), jams.end(), [&](const Jam& a, const Jam& b) {
    const bool a_names = !missing_in(a, waiting).empty();
    const bool b_names = !missing_in(b, waiting).empty();
    return a_names != b_names ? a_names : a.waited > b.waited;
  });

  Diagnosis diagnosis;
  std::set<int> missing;
  for (const Jam& jam : jams) {
    for (const int rank : missing_in(jam, waiting)) missing.insert(rank);
    if (diagnosis.sentences.size() < Diagnosis::max_sentences)
      diagnosis.sentences.push_back(sentence_of(jam));
  }
  if (!jams.empty()) diagnosis.devices = devices_in(jams.front(), missing);
  if (jams.empty()) {
    const std::vector<OtherWait> waits = other_waits(groups);
    for (const OtherWait& wait : waits) add_waiting(wait.waiting, waiting);
    for (const OtherWait& wait : waits) {
      for (const RankProgress* rank : wait.absent) {
        if (!waiting.contains(rank->rank)) missing.insert(rank->rank);
      }
      if (diagnosis.sentences.size() < Diagnosis::max_sentences)
        diagnosis.sentences.push_back(sentence_of(wait));
    }
  }
  diagnosis.missing.assign(missing.begin(), missing.end());
  if (!diagnosis.sentences.empty()) find_stalled_link(groups, diagnosis);
  return diagnosis;
}

}  // namespace dlaunch::agent
