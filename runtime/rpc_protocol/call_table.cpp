#include "runtime/rpc_protocol/call_table.h"

#include <algorithm>
#include <utility>

#include "store/base/text.h"
#include "store/base/time.h"

namespace dlaunch::internal {

bool CallTable::has_room(std::size_t bytes) const {
  return calls_.size() == 0 ||
         (calls_.size() < most_calls && bytes <= most_bytes - std::min(bytes_, most_bytes));
}

std::uint64_t CallTable::begin(Call call) {
  const std::uint64_t number = ++last_number_;
  bytes_ += call.bytes;
  const auto deadline = deadlines_.add(call.deadline, number);
  calls_.add(number, {std::move(call), deadline});
  return number;
}

// REQUIRES: it waits.
CallTable::Call CallTable::take(std::uint64_t number) {
  Waiting waiting = calls_.take(number);
  deadlines_.remove(waiting.deadline);
  bytes_ -= waiting.call.bytes;
  return std::move(waiting.call);
}

void CallTable::answer(std::uint64_t number, CallOutcome outcome, std::vector<Ended>& ended) {
  if (!waits(number)) return;
  Call call = take(number);
  ended.push_back({std::move(call.receiver), std::move(outcome), call.tag});
}

void CallTable::expire(Deadline now, const Withdraw& withdraw, std::vector<Ended>& ended) {
  std::vector<std::uint64_t> numbers;
  std::vector<Call> calls;
  while (const auto number = deadlines_.passed(now)) {
    numbers.push_back(*number);
    calls.push_back(take(*number));
  }
  const std::unordered_set<std::uint64_t> unsent = withdraw(numbers);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const bool was_sent = !unsent.contains(numbers[i]);
    const std::string known = was_sent ? "it was sent, and may still run there" : "it was not sent";
    ended.push_back({call.receiver,
                     NoAnswer{NoAnswer::Kind::timeout,
                              callee_ + " did not answer " + quoted(call.function) + " within " +
                                  to_words(std::chrono::duration_cast<Duration>(call.timeout)) + "; " + known,
                              was_sent},
                     call.tag});
  }
}

void CallTable::lose(const std::string& why, const Withdraw& withdraw, std::vector<Ended>& ended) {
  std::vector<std::uint64_t> numbers;
  calls_.for_each([&](std::uint64_t number, const Waiting&) { numbers.push_back(number); });
  std::ranges::sort(numbers);
  const std::unordered_set<std::uint64_t> unsent = withdraw(numbers);
  for (const std::uint64_t number : numbers) {
    const Call call = take(number);
    const bool was_sent = !unsent.contains(number);
    const std::string known = was_sent ? " was sent, no answer: " : " was not sent: ";
    std::string text = quoted(call.function).append(known).append(callee_).append(" ").append(why);
    ended.push_back({call.receiver, NoAnswer{NoAnswer::Kind::lost, std::move(text), was_sent}, call.tag});
  }
}

std::string CallTable::functions() const {
  ShortList names;
  calls_.for_each([&](std::uint64_t, const Waiting& waiting) { names.add(quoted(waiting.call.function)); });
  return names.text();
}

}  // namespace dlaunch::internal
