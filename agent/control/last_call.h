// How much longer a coordinator waits for more nodes once enough for a world are here. Pure.
#pragma once

#include <optional>

#include "store/base/time.h"

namespace dlaunch::agent {

class LastCall {
 public:
  // With `enough` nodes there is no wait for more.
  LastCall(int enough, Duration patience) : enough_(enough), patience_(patience) {}

  // A world may begin with the `ready` nodes that are here. True: the wait for more begins now.
  bool begin(TimePoint now, int ready) {
    if (ready >= enough_ || until_) return false;
    until_ = now + patience_;
    return true;
  }
  // Too few nodes are here, or the world has begun.
  void cancel() { until_.reset(); }
  // None: no wait has begun.
  [[nodiscard]] std::optional<TimePoint> until() const { return until_; }
  // With `ready` nodes a world may begin then, as far as this wait is concerned. REQUIRES: begin().
  [[nodiscard]] TimePoint over_at(int ready) const {
    return ready < enough_ ? until_.value_or(TimePoint::max()) : TimePoint::min();
  }
  [[nodiscard]] Duration patience() const { return patience_; }

 private:
  int enough_;
  Duration patience_;
  std::optional<TimePoint> until_;
};

}  // namespace dlaunch::agent
