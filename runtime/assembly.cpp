#include "runtime/assembly.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/deadline.h"

namespace dlaunch {

namespace {

std::string place_of(std::uint64_t meeting) { return std::to_string(meeting) + "/"; }
std::string seat(const std::string& place, int rank) { return place + std::to_string(rank); }
std::string verdict(const std::string& place) { return place + "verdict"; }

}  // namespace

// In short turns: other threads need the store too, and a lost rank is to be noticed.
bool Assembly::await(std::span<const std::string> keys, const Meeting& meeting) {
  constexpr auto turn = std::chrono::milliseconds(50);
  for (;;) {
    try {
      store_->wait(keys, std::min<Duration>(turn, time_left(meeting.deadline)));
      return true;
    } catch (const StoreError& e) {
      if (e.error().kind != ErrorKind::timeout) throw;
    }
    if (has_passed(meeting.deadline)) return false;
    meeting.check();
  }
}

std::string Assembly::preside(const std::string& place, const Meeting& meeting) {
  std::vector<std::string> seats;
  seats.reserve(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) seats.push_back(seat(place, rank));
  std::string result;
  if (await(seats, meeting)) {
    last_was_complete_ = true;
    result = meeting.judge(store_->multi_get(seats));
  } else {
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank) {
      if (!store_->check({&seats[static_cast<std::size_t>(rank)], 1})) missing.push_back(rank);
    }
    if (!missing.empty()) result = meeting.name_missing(missing);
  }
  store_->set(verdict(place), result);
  return result;
}

std::string Assembly::meet(const Meeting& meeting) {
  const std::string place = place_of(++meetings_);
  // If all came to the last meeting, nobody asks any more for what was said there, nor for the verdict of the
  // one before; its own verdict may still be waited for.
  if (std::exchange(last_was_complete_, false)) {
    store_->delete_key(seat(place_of(meetings_ - 1), rank_));
    if (rank_ == 0 && meetings_ > 2) store_->delete_key(verdict(place_of(meetings_ - 2)));
  }
  store_->set(seat(place, rank_), meeting.statement);
  if (rank_ == 0) return preside(place, meeting);
  const std::string heard = verdict(place);
  if (await({&heard, 1}, meeting)) {
    std::string result = store_->get(heard);
    last_was_complete_ = result.empty();
    return result;
  }
  const std::string first = seat(place, 0);
  return store_->check({&first, 1}) ? "rank 0 has not heard all ranks before this rank's deadline"
                                    : meeting.name_missing({0});
}

}  // namespace dlaunch
