#include "runtime/rendezvous/store_barrier.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/rendezvous/loss_propagation.h"
#include "runtime/rendezvous/rendezvous.h"

namespace dlaunch::internal {

namespace {

// Short: other threads need the store too, and the loss of a rank must be detected soon.
constexpr auto turn = std::chrono::milliseconds(50);
// The deadlines of one call on all ranks pass at nearly the same time; the first rank then needs a moment.
constexpr auto grace = std::chrono::milliseconds(200);

// The value of a rank's key: registered, with its statement; or withdrawn.
constexpr char registered = '+';
constexpr const char* withdrawn = "-";

std::string round_prefix(std::uint64_t round) { return std::to_string(round) + "/"; }
std::string registration_key(std::uint64_t round, int rank) {
  return round_prefix(round) + std::to_string(rank);
}
std::string decision_key(std::uint64_t round) { return round_prefix(round) + "verdict"; }

bool is_among(int rank, const std::vector<int>& ranks) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

std::string describe_departed(const std::vector<int>& ranks) {
  return describe_ranks(ranks) + (ranks.size() == 1 ? " has" : " have") + " left the group";
}

}  // namespace

// "1,4,the text": ranks, each with a comma.
std::string StoreBarrier::Decision::encode() const {
  std::string result;
  for (const int rank : missing) result += std::to_string(rank) + ",";
  return result + "\n" + text;
}

StoreBarrier::Decision StoreBarrier::Decision::decode(const std::string& text) {
  Decision result;
  std::size_t at = 0;
  for (; at < text.size() && text[at] != '\n'; ++at) {
    int rank = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) rank = rank * 10 + (text[at] - '0');
    result.missing.push_back(rank);
  }
  result.text = text.substr(std::min(at + 1, text.size()));
  return result;
}

std::vector<std::string> StoreBarrier::registration_keys() const {
  std::vector<std::string> result;
  result.reserve(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) result.push_back(registration_key(round_, rank));
  return result;
}

bool StoreBarrier::has_ended() {
  const std::string decision = decision_key(round_);
  return store_->check({&decision, 1});
}

std::vector<int> StoreBarrier::not_arrived() { return absent_keys(*store_, registration_keys()); }

StoreBarrier::Wait StoreBarrier::await(std::span<const std::string> keys, const Options& options,
                                       Deadline deadline, const std::function<bool()>& in_vain) {
  for (;;) {
    try {
      store_->wait(keys, std::min<Duration>(turn, time_left(deadline)));
      return Wait::come;
    } catch (const StoreError& e) {
      if (e.error().kind != ErrorKind::timeout) throw;
    }
    if (has_passed(deadline)) return Wait::too_late;
    options.check();
    if (in_vain()) {
      // A rank may have left because it learned, before this rank, that another one is lost.
      wait_for_root_error(std::min(deadline, deadline_after(loss_propagation_delay)), options.check);
      return Wait::in_vain;
    }
  }
}

void StoreBarrier::register_rank(const Options& options) {
  // If all arrived in the last round, no rank reads its statements any more, nor the decision of the round
  // before it; a rank may still wait for the last round's decision.
  if (std::exchange(last_was_complete_, false)) {
    store_->delete_key(registration_key(round_ - 1, rank_));
    if (rank_ == 0 && round_ > 2) store_->delete_key(decision_key(round_ - 2));
  }
  store_->set(registration_key(round_, rank_), registered + options.statement);
}

StoreBarrier::Decision StoreBarrier::coordinate(const Options& options) {
  Decision decision = judge(options);
  store_->set(decision_key(round_), decision.encode());
  return decision;
}

StoreBarrier::Decision StoreBarrier::judge(const Options& options) {
  for (;;) {
    std::vector<int> gone;  // ranks that have left and did not arrive
    const Wait result = await(registration_keys(), options, options.deadline, [&] {
      const std::vector<int> departed = options.departed();
      if (!departed.empty()) std::ranges::set_intersection(departed, not_arrived(), std::back_inserter(gone));
      return !gone.empty();
    });
    if (result == Wait::in_vain) return {gone, describe_departed(gone)};
    std::vector<int> missing;
    if (result == Wait::too_late) missing = not_arrived();
    if (missing.empty()) {
      std::vector<std::string> statements = store_->multi_get(registration_keys());
      for (int rank = 0; rank < size_; ++rank) {
        std::string& statement = statements[static_cast<std::size_t>(rank)];
        if (statement == withdrawn) missing.push_back(rank);
        statement.erase(0, 1);
      }
      if (missing.empty()) return {{}, options.judge(statements)};
    }
    if (has_passed(options.deadline)) return {missing, options.name_missing(missing)};
    // A rank that withdrew may return.
    std::this_thread::sleep_for(std::min<Duration>(turn, time_left(options.deadline)));
    options.check();
  }
}

// None: this rank's deadline has passed.
std::optional<StoreBarrier::Decision> StoreBarrier::receive_decision(const Options& options) {
  const std::string decision = decision_key(round_);
  const auto await_decision = [&](Deadline deadline) {
    return await({&decision, 1}, options, deadline,
                 [&] { return is_among(0, options.departed()) && !has_ended(); });
  };
  Wait result = await_decision(options.deadline);
  const std::string first = registration_key(round_, 0);
  if (result == Wait::too_late && store_->check({&first, 1})) result = await_decision(deadline_after(grace));
  if (result == Wait::in_vain) return Decision{{0}, describe_departed({0})};
  if (result == Wait::too_late) return std::nullopt;
  return Decision::decode(store_->get(decision));
}

// The reason; or the decision, if it has arrived meanwhile.
StoreBarrier::Decision StoreBarrier::give_up(const Options& options) {
  const std::vector<int> missing = not_arrived();
  if (latecomers_ == Latecomers::wait_for_next_round) {
    store_->set(registration_key(round_, rank_), withdrawn);
    ended_ = has_ended();
    if (ended_) return Decision::decode(store_->get(decision_key(round_)));
  }
  if (missing.empty()) return {{}, "rank 0 did not receive from all ranks before this rank's deadline"};
  return {missing, options.name_missing(missing)};
}

StoreBarrier::Decision StoreBarrier::synchronize(const Options& options) {
  for (;;) {
    if (!ended_) ended_ = has_ended();
    if (latecomers_ == Latecomers::get_the_decision || ended_) ++round_;
    ended_ = false;
    register_rank(options);
    std::optional<Decision> decision = rank_ == 0 ? coordinate(options) : receive_decision(options);
    if (!decision) return give_up(options);
    ended_ = true;
    last_was_complete_ = decision->missing.empty();
    const bool came_late = rank_ != 0 && is_among(rank_, decision->missing);
    if (!came_late || latecomers_ == Latecomers::get_the_decision) return std::move(*decision);
    store_->delete_key(registration_key(round_, rank_));
  }
}

}  // namespace dlaunch::internal
