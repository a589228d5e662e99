#include "agent/control/endpoint_search.h"

namespace dlaunch::agent {

void EndpointSearch::dial(std::size_t endpoint) {
  endpoint_ = endpoint;
  dial_at_.reset();
}

void EndpointSearch::restart(TimePoint now) {
  end();
  pause_ = first_pause;
  began_ = now;
}

void EndpointSearch::offer_fallback() {
  if (!fallback_ || endpoint_ < *fallback_) fallback_ = endpoint_;
}

void EndpointSearch::leave_park() {
  if (parked_) tried_ = endpoints_;
}

void EndpointSearch::end() {
  tried_ = 0;
  fallback_.reset();
  parked_ = false;
}

std::optional<std::size_t> EndpointSearch::advance(TimePoint now, TimePoint deadline) {
  if (++tried_ < endpoints_) return next();
  tried_ = 0;
  if (fallback_ && !parked_) {
    parked_ = true;
    park_time_ = std::clamp(park_per_search * (now - began_), shortest_park, longest_park);
    deadline_ = std::max(deadline, now);
    parked_until_ = std::min(now + park_time_, deadline_);
    probed_ = *fallback_;
    probe_at_ = now + probe_pause;
    return fallback_;
  }
  fallback_.reset();
  parked_ = false;
  endpoint_ = endpoints_ - 1;
  dial_at_ = std::min(now + pause_, std::max(deadline, now));
  pause_ = std::min(pause_ * 2, longest_pause);
  return std::nullopt;
}

void EndpointSearch::park_here(TimePoint now) {
  parked_ = true;
  parked_until_ = now + shortest_park;
}

std::size_t EndpointSearch::probe_next(TimePoint now) {
  probed_ = (probed_ + 1) % endpoints_;
  if (probed_ == endpoint_) probed_ = (probed_ + 1) % endpoints_;
  probe_at_ = now + probe_timeout;
  return probed_;
}

bool EndpointSearch::take_answer(TimePoint now, const EndpointProbed& answer) {
  if (answer.endpoint != probed_) return false;
  probe_at_ = now + probe_pause;
  if (!answer.answers) return false;
  if (answer.leads) {
    end();
    began_ = now;
    return true;
  }
  if (answer.elsewhere || answer.endpoint >= endpoint_) return false;
  fallback_ = answer.endpoint;
  parked_until_ = std::min(now + park_time_, deadline_);
  return true;
}

}  // namespace dlaunch::agent
