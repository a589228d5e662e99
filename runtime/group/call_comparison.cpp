#include "runtime/group/call_comparison.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/group/splits.h"
#include "store/client/prefix_store.h"

namespace dlaunch::internal {

namespace {

// Which ranks make another call than most, and which call; empty: all make the same.
std::string difference(const std::vector<std::string>& calls) {
  std::map<std::string, std::vector<int>> callers;
  for (std::size_t rank = 0; rank < calls.size(); ++rank)
    callers[calls[rank]].push_back(static_cast<int>(rank));
  if (callers.size() < 2) return {};
  std::vector<std::pair<std::string, std::vector<int>>> by_number(callers.begin(), callers.end());
  std::ranges::stable_sort(by_number, [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() > b.second.size() : a.second < b.second;
  });
  std::string text = "the ranks call different operations: ";
  for (std::size_t i = 0; i < by_number.size(); ++i) {
    const auto& [call, ranks] = by_number[i];
    text += (i > 0 ? "; " : "") + describe_ranks(ranks) + (ranks.size() == 1 ? " calls " : " call ") + call;
  }
  return text;
}

// Each rank of a host has a CUDA device of its own.
std::string without_device_numbers(std::string call) {
  constexpr std::string_view device = "cuda:";
  for (std::size_t at = call.find(device); at != std::string::npos; at = call.find(device, at + 1)) {
    const std::size_t number = at + device.size() - 1;  // and the colon
    call.erase(number, call.find_first_not_of("0123456789", number + 1) - number);
  }
  return call;
}

// What is wrong with the ranks' statements, by rank; empty: nothing.
std::string judge(const std::vector<std::string>& statements) {
  std::vector<std::string> calls;
  std::vector<std::string> splits;
  for (const std::string& statement : statements) {
    const std::size_t end = std::min(statement.find('\n'), statement.size());
    calls.push_back(without_device_numbers(statement.substr(0, end)));
    splits.push_back(statement.substr(end));
  }
  const std::string text = difference(calls);
  return text.empty() && !splits.front().empty() ? split_mismatch(splits) : text;
}

// The error's peer is the first missing rank. A rank that came too late finds itself among the missing.
void throw_if_bad(const StoreBarrier::Decision& decision, int self) {
  if (decision.text.empty()) return;
  const auto other = std::ranges::find_if(decision.missing, [self](int rank) { return rank != self; });
  throw DistNetworkError(decision.text, {.peer = other == decision.missing.end() ? -1 : *other});
}

std::string describe_missing_calls(const GroupDescription& group, const std::string& call,
                                   const std::vector<int>& missing) {
  std::vector<int> silent = missing;
  std::erase_if(silent, [&](int rank) {
    const auto place = static_cast<std::size_t>(rank);
    return place >= group.compares.size() || group.compares[place];
  });
  return describe_ranks(missing) + " did not call anything before the deadline; this group's " +
         "other ranks call " + call +
         (silent.empty() ? ""
                         : "; the calls of " + describe_ranks(silent) +
                               " are not compared: the debug level there was not DETAIL when the ranks "
                               "joined");
}

}  // namespace

CallComparison::CallComparison(const GroupDescription& group, std::shared_ptr<Store> keys, Peers peers)
    : group_(group), keys_(std::move(keys)), peers_(std::move(peers)) {}

void CallComparison::compare(const Call& call) {
  if (!keys_ || group_.size == 1) return;
  compare(call, [&](const std::vector<int>& missing) {
    return describe_missing_calls(group_, call.name, missing);
  });
}

void CallComparison::compare(const Call& call, DescribeMissing describe_missing) {
  synchronize(calls_, "compare", StoreBarrier::Latecomers::get_the_decision, call,
              std::move(describe_missing));
}

void CallComparison::barrier(const Call& call, DescribeMissing describe_missing) {
  synchronize(barriers_, "monitored", StoreBarrier::Latecomers::wait_for_next_round, call,
              std::move(describe_missing));
}

void CallComparison::synchronize(std::optional<StoreBarrier>& barrier, const char* prefix,
                                 StoreBarrier::Latecomers latecomers, const Call& call,
                                 DescribeMissing describe_missing) {
  if (!barrier)
    barrier.emplace(std::make_shared<PrefixStore>(prefix, keys_), group_.rank, group_.size, latecomers);
  throw_if_bad(barrier->synchronize({.statement = call.statement,
                                     .deadline = call.deadline,
                                     .judge = judge,
                                     .name_missing = std::move(describe_missing),
                                     .check = peers_.check,
                                     .departed = peers_.departed}),
               group_.rank);
}

}  // namespace dlaunch::internal
