// A member's connection to a coordinator: whether it is up and leads, and when heartbeats are due. Pure.
//
// Without --node-timeout there are no heartbeats, and silence is no loss.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/control/messages.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class CoordinatorContact {
 public:
  // `connect_attempt`: how long the network tries to connect.
  CoordinatorContact(Duration node_timeout, Duration heartbeat_interval, Duration connect_attempt)
      : timeout_(node_timeout), interval_(heartbeat_interval), connect_attempt_(connect_attempt) {}

  // An endpoint is dialled. When it is connected, it has the time of a node timeout to answer with the proof
  // of the secret.
  void dial(TimePoint now) { up_by_ = now + connect_attempt_ + answer_time(); }
  [[nodiscard]] bool is_unanswered(TimePoint now) const { return up_by_ && now >= *up_by_; }
  [[nodiscard]] Duration answer_time() const { return timeout_ > Duration(0) ? timeout_ : longest_answer; }

  // The connection is up; its coordinator has not said yet whether it leads.
  void begin(TimePoint now) {
    up_by_.reset();
    up_ = true;
    leads_ = false;
    last_heard_ = now;
    if (timeout_ > Duration(0)) heartbeat_at_ = now + interval_;
  }
  void end() {
    up_ = leads_ = false;
    up_by_.reset();
    heartbeat_at_.reset();
  }
  [[nodiscard]] bool is_up() const { return up_; }
  void set_leads(bool leads) { leads_ = leads; }
  [[nodiscard]] bool leads() const { return leads_; }

  void on_message(TimePoint now) { last_heard_ = now; }
  [[nodiscard]] TimePoint last_heard() const { return last_heard_; }
  // The coordinator's clock, which the next heartbeat returns.
  void set_stamp(std::int64_t stamp) { stamp_ = stamp; }
  [[nodiscard]] Heartbeat heartbeat(TimePoint now) const { return {stamp_, stamp_of(now), {}}; }
  // True: a heartbeat is due, and the next one is scheduled.
  bool take_heartbeat(TimePoint now) {
    if (!heartbeat_at_ || now < *heartbeat_at_) return false;
    heartbeat_at_ = now + interval_;
    return true;
  }

  // Nothing came for a node timeout, although this process ran. If it did not run, the messages that the
  // coordinator sent meanwhile are still to be read.
  [[nodiscard]] bool is_lost(TimePoint now) const {
    if (!heartbeat_at_) return false;
    const bool overslept = now - *heartbeat_at_ > interval_;
    return has_given_up(now) || (!overslept && now >= last_heard_ + timeout_);
  }
  // The coordinator has given up this node by now: a message that it sent before is out of date.
  [[nodiscard]] bool has_given_up(TimePoint now) const {
    return heartbeat_at_ && now >= last_heard_ + timeout_ + interval_;
  }
  // When a heartbeat is due, or the endpoint or the coordinator may be lost; none: never.
  [[nodiscard]] std::optional<TimePoint> wake_at() const {
    if (up_by_) return up_by_;
    return heartbeat_at_ ? std::optional(std::min(*heartbeat_at_, last_heard_ + timeout_)) : std::nullopt;
  }

 private:
  static constexpr Duration longest_answer = std::chrono::seconds(10);  // without a node timeout

  Duration timeout_;
  Duration interval_;
  Duration connect_attempt_;
  std::optional<TimePoint> up_by_;  // an endpoint that was dialled; none: it is up, or none is dialled
  bool up_ = false;
  bool leads_ = false;
  TimePoint last_heard_;
  std::int64_t stamp_ = 0;
  std::optional<TimePoint> heartbeat_at_;  // none: not connected, or without heartbeats
};

}  // namespace dlaunch::agent
