#include "runtime/gradients/unit_schedule.h"

#include <algorithm>
#include <utility>

namespace dlaunch::internal {

void UnitSchedule::forward(std::size_t unit) {
  if (std::exchange(has_ended_, false)) last_order_ = std::exchange(order_, {});
  if (std::ranges::find(order_, unit) == order_.end()) order_.push_back(unit);
}

std::optional<std::size_t> UnitSchedule::after(std::size_t unit) const {
  const std::vector<std::size_t>& order = has_ended_ ? order_ : last_order_;
  const auto place = std::ranges::find(order, unit);
  if (place == order.end() || place + 1 == order.end()) return std::nullopt;
  return *(place + 1);
}

std::optional<std::size_t> UnitSchedule::before(std::size_t unit) const {
  const auto place = std::ranges::find(order_, unit);
  if (place == order_.end() || place == order_.begin()) return std::nullopt;
  const auto index = static_cast<std::size_t>(place - order_.begin()) - 1;
  if (index + reduced_ >= order_.size()) return std::nullopt;
  return order_[index];
}

std::vector<std::size_t> UnitSchedule::complete(std::size_t unit) {
  is_complete_[unit] = 1;
  std::vector<std::size_t> ready;
  while (reduced_ < order_.size() && is_complete_[order_[order_.size() - 1 - reduced_]] != 0)
    ready.push_back(order_[order_.size() - 1 - reduced_++]);
  return ready;
}

std::vector<std::size_t> UnitSchedule::end_backward() {
  std::vector<std::size_t> rest(order_.rbegin() + static_cast<std::ptrdiff_t>(reduced_), order_.rend());
  std::ranges::fill(is_complete_, 0);
  reduced_ = 0;
  has_ended_ = true;
  return rest;
}

}  // namespace dlaunch::internal
