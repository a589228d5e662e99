// How a node finds the endpoint whose coordinator leads the job. Pure.
//
// It tries the endpoints in turn. If none leads, it parks at the first in order that took it: so do all
// nodes, and with enough of them that one leads. While it is parked it probes the other endpoints in turn. It
// moves to one that leads at once, or to an earlier one that answers, so that all nodes meet there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "store/base/time.h"

namespace dlaunch::agent {

// The answer to a probe.
struct EndpointProbed {
  std::size_t endpoint = 0;
  bool answers = false;    // otherwise nothing else is known
  bool leads = false;      // the job
  bool elsewhere = false;  // its node follows a leader at another endpoint
};

class EndpointSearch {
 public:
  // Between two attempts to reach any endpoint.
  static constexpr Duration first_pause = std::chrono::milliseconds(20);
  static constexpr Duration longest_pause = std::chrono::milliseconds(500);
  // How long a node parks, and how many times as long as the search before took: so enough nodes are parked
  // at once though some endpoints do not answer.
  static constexpr Duration shortest_park = std::chrono::seconds(3);
  static constexpr Duration longest_park = std::chrono::seconds(40);
  static constexpr int park_per_search = 4;
  // How long a probed endpoint has to answer, and the pause before the next probe. With `n` endpoints a
  // leader is found (n - 1) times their sum after it can be reached at the latest.
  static constexpr Duration probe_timeout = std::chrono::seconds(2);
  static constexpr Duration probe_pause = std::chrono::seconds(1);

  EndpointSearch(std::size_t endpoints, TimePoint now)
      : endpoints_(std::max<std::size_t>(1, endpoints)), began_(now) {}

  [[nodiscard]] std::size_t endpoints() const { return endpoints_; }
  // The one that is dialled, or was.
  [[nodiscard]] std::size_t endpoint() const { return endpoint_; }
  void dial(std::size_t endpoint);

  // --- the search ---

  // This one, or the next after a pause, is the first of a search.
  void begin(TimePoint now) { began_ = now; }
  // The leader is lost: its endpoint is the last to be tried again.
  void restart(TimePoint now);
  // This endpoint took the node, but does not lead.
  void offer_fallback();
  // Where the node is parked is of no use any more: the next search begins with the first endpoint.
  void leave_park();
  // The search is over, since a leader was found, or the leader that was found leads no more.
  void end();
  // The endpoint to dial now. None: from dial_at() on. Neither that nor parked_until() is after `deadline`.
  std::optional<std::size_t> advance(TimePoint now, TimePoint deadline);
  [[nodiscard]] std::optional<TimePoint> dial_at() const { return dial_at_; }
  // The endpoint to dial at dial_at().
  [[nodiscard]] std::size_t next() const { return (endpoint_ + 1) % endpoints_; }

  // --- while it is parked ---

  // At this endpoint, whose coordinator may not know yet that it leads.
  void park_here(TimePoint now);
  [[nodiscard]] bool is_parked() const { return parked_; }
  [[nodiscard]] TimePoint parked_until() const { return parked_until_; }
  [[nodiscard]] TimePoint probe_at() const { return probe_at_; }
  // The endpoint to probe now.
  std::size_t probe_next(TimePoint now);
  // True: the node moves to the probed endpoint.
  bool take_answer(TimePoint now, const EndpointProbed& answer);

 private:
  std::size_t endpoints_;
  std::size_t endpoint_ = 0;
  std::size_t tried_ = 0;  // in this search
  TimePoint began_;        // this search
  Duration pause_ = first_pause;
  std::optional<TimePoint> dial_at_;
  std::optional<std::size_t> fallback_;    // the first that took the node, but does not lead
  bool parked_ = false;                    // with it
  TimePoint deadline_ = TimePoint::max();  // of the wait for a leader, when it parked
  TimePoint parked_until_;
  Duration park_time_{};
  std::size_t probed_ = 0;
  TimePoint probe_at_;
};

}  // namespace dlaunch::agent
