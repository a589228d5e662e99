#include "runtime/rendezvous/assembly.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/listed.h"
#include "runtime/rendezvous/join.h"
#include "runtime/rendezvous/news.h"

namespace dlaunch {

namespace {

// Short: other threads need the store too, and a lost rank is to be noticed.
constexpr auto turn = std::chrono::milliseconds(50);
// The deadlines of one call on all ranks pass at nearly the same time; the first rank then needs a moment.
constexpr auto grace = std::chrono::milliseconds(200);

// What is on a seat: that somebody is there, and what it says; or that it was there and has given up.
constexpr char seated = '+';
constexpr const char* vacated = "-";

std::string place_of(std::uint64_t meeting) { return std::to_string(meeting) + "/"; }
std::string seat(std::uint64_t meeting, int rank) { return place_of(meeting) + std::to_string(rank); }
std::string verdict_of(std::uint64_t meeting) { return place_of(meeting) + "verdict"; }

bool is_among(int rank, const std::vector<int>& ranks) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

std::string say_who_has_left(const std::vector<int>& ranks) {
  return name_ranks(ranks) + (ranks.size() == 1 ? " has" : " have") + " left the group";
}

}  // namespace

// "1,4,the text": ranks, each with a comma.
std::string Assembly::Verdict::encode() const {
  std::string result;
  for (const int rank : missing) result += std::to_string(rank) + ",";
  return result + "\n" + text;
}

Assembly::Verdict Assembly::Verdict::decode(const std::string& text) {
  Verdict result;
  std::size_t at = 0;
  for (; at < text.size() && text[at] != '\n'; ++at) {
    int rank = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) rank = rank * 10 + (text[at] - '0');
    result.missing.push_back(rank);
  }
  result.text = text.substr(std::min(at + 1, text.size()));
  return result;
}

std::vector<std::string> Assembly::seats() const {
  std::vector<std::string> result;
  result.reserve(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) result.push_back(seat(meeting_, rank));
  return result;
}

bool Assembly::has_ended() {
  const std::string verdict = verdict_of(meeting_);
  return store_->check({&verdict, 1});
}

std::vector<int> Assembly::unseated() { return absent(*store_, seats()); }

Assembly::Wait Assembly::await(std::span<const std::string> keys, const Meeting& meeting, Deadline deadline,
                               const std::function<bool()>& in_vain) {
  for (;;) {
    try {
      store_->wait(keys, std::min<Duration>(turn, time_left(deadline)));
      return Wait::come;
    } catch (const StoreError& e) {
      if (e.error().kind != ErrorKind::timeout) throw;
    }
    if (has_passed(deadline)) return Wait::too_late;
    meeting.check();
    if (in_vain()) {
      // Who has left may have done so since it has heard, before this rank, that another one is lost.
      await_news(std::min(deadline, deadline_after(time_for_news)), meeting.check);
      return Wait::in_vain;
    }
  }
}

void Assembly::take_seat(const Meeting& meeting) {
  // If all came to the last meeting, nobody asks any more for what was said there, nor for the verdict of the
  // one before; its own verdict may still be waited for.
  if (std::exchange(last_was_complete_, false)) {
    store_->delete_key(seat(meeting_ - 1, rank_));
    if (rank_ == 0 && meeting_ > 2) store_->delete_key(verdict_of(meeting_ - 2));
  }
  store_->set(seat(meeting_, rank_), seated + meeting.statement);
}

Assembly::Verdict Assembly::preside(const Meeting& meeting) {
  Verdict verdict = judge(meeting);
  store_->set(verdict_of(meeting_), verdict.encode());
  return verdict;
}

Assembly::Verdict Assembly::judge(const Meeting& meeting) {
  for (;;) {
    std::vector<int> gone;  // who has left without having come
    const Wait result = await(seats(), meeting, meeting.deadline, [&] {
      const std::vector<int> departed = meeting.departed();
      if (!departed.empty()) std::ranges::set_intersection(departed, unseated(), std::back_inserter(gone));
      return !gone.empty();
    });
    if (result == Wait::in_vain) return {gone, say_who_has_left(gone)};
    std::vector<int> missing;
    if (result == Wait::too_late) missing = unseated();
    if (missing.empty()) {
      std::vector<std::string> statements = store_->multi_get(seats());
      for (int rank = 0; rank < size_; ++rank) {
        std::string& statement = statements[static_cast<std::size_t>(rank)];
        if (statement == vacated) missing.push_back(rank);
        statement.erase(0, 1);
      }
      if (missing.empty()) return {{}, meeting.judge(statements)};
    }
    if (has_passed(meeting.deadline)) return {missing, meeting.name_missing(missing)};
    // Who gave up may come back.
    std::this_thread::sleep_for(std::min<Duration>(turn, time_left(meeting.deadline)));
    meeting.check();
  }
}

// None: this rank's time is up.
std::optional<Assembly::Verdict> Assembly::listen(const Meeting& meeting) {
  const std::string verdict = verdict_of(meeting_);
  const auto await_verdict = [&](Deadline deadline) {
    return await({&verdict, 1}, meeting, deadline,
                 [&] { return is_among(0, meeting.departed()) && !has_ended(); });
  };
  Wait result = await_verdict(meeting.deadline);
  const std::string first = seat(meeting_, 0);
  if (result == Wait::too_late && store_->check({&first, 1})) result = await_verdict(deadline_after(grace));
  if (result == Wait::in_vain) return Verdict{{0}, say_who_has_left({0})};
  if (result == Wait::too_late) return std::nullopt;
  return Verdict::decode(store_->get(verdict));
}

// Why; or the verdict, if that has come meanwhile.
Assembly::Verdict Assembly::give_up(const Meeting& meeting) {
  const std::vector<int> missing = unseated();
  if (latecomers_ == Latecomers::wait_for_the_next) {
    store_->set(seat(meeting_, rank_), vacated);
    ended_ = has_ended();
    if (ended_) return Verdict::decode(store_->get(verdict_of(meeting_)));
  }
  if (missing.empty()) return {{}, "rank 0 has not heard all ranks before this rank's deadline"};
  return {missing, meeting.name_missing(missing)};
}

Assembly::Verdict Assembly::meet(const Meeting& meeting) {
  for (;;) {
    if (!ended_) ended_ = has_ended();
    if (latecomers_ == Latecomers::hear_the_verdict || ended_) ++meeting_;
    ended_ = false;
    take_seat(meeting);
    std::optional<Verdict> verdict = rank_ == 0 ? preside(meeting) : listen(meeting);
    if (!verdict) return give_up(meeting);
    ended_ = true;
    last_was_complete_ = verdict->missing.empty();
    const bool came_late = rank_ != 0 && is_among(rank_, verdict->missing);
    if (!came_late || latecomers_ == Latecomers::hear_the_verdict) return std::move(*verdict);
    store_->delete_key(seat(meeting_, rank_));
  }
}

}  // namespace dlaunch
