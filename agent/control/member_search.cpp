// How a member finds the endpoint whose coordinator leads the job: it walks along them, and asks from where
// it stays.
#include <algorithm>

#include "agent/control/member.h"

namespace dlaunch::agent {

// To the next endpoint; after the last one back to the first that took us, or, after a pause, from the
// beginning.
void Member::try_next_endpoint(TimePoint now, MemberActions& out) {
  state_ = State::connecting;
  if (++tried_ < endpoints()) {
    dial((endpoint_ + 1) % endpoints(), out);
    return;
  }
  tried_ = 0;
  if (fallback_ && !parked_) {
    parked_ = true;
    park_time_ = std::clamp(park_per_search * (now - search_began_), shortest_park, longest_park);
    parked_until_ = now + park_time_;
    probed_ = *fallback_;
    probe_at_ = now + probe_pause;
    out.emplace_back(LogMessage{Severity::debug, "no endpoint leads the job: waiting at " +
                                                     to_string(job_.endpoint(*fallback_)) +
                                                     ", and asking the others"});
    dial(*fallback_, out);
    return;
  }
  fallback_.reset();
  parked_ = false;
  endpoint_ = endpoints() - 1;
  dial_at_ = std::min(now + pause_, std::max(join_deadline_, now));
  pause_ = std::min(pause_ * 2, longest_pause);
}

void Member::probe_next(TimePoint now, MemberActions& out) {
  probed_ = (probed_ + 1) % endpoints();
  if (probed_ == endpoint_) probed_ = (probed_ + 1) % endpoints();
  probe_at_ = now + probe_timeout;
  out.emplace_back(ProbeEndpoint{probed_});
}

void Member::on_endpoint_probed(TimePoint now, const EndpointProbed& answer, MemberActions& out) {
  if (!may_probe() || answer.endpoint != probed_) return;
  probe_at_ = now + probe_pause;
  if (!answer.answers) return;
  if (answer.leads) {
    out.emplace_back(LogMessage{
        Severity::debug,
        "the coordinator at " + to_string(job_.endpoint(answer.endpoint)) + " leads the job: joining it"});
    parked_ = false;
    fallback_.reset();
    tried_ = 0;
    search_began_ = now;
    move_to(now, answer.endpoint, out);
  } else if (!answer.elsewhere && answer.endpoint < endpoint_) {
    fallback_ = answer.endpoint;
    parked_until_ = now + park_time_;
    move_to(now, answer.endpoint, out);
  }
}

void Member::move_to(TimePoint now, std::size_t endpoint, MemberActions& out) {
  probe_at_ = now + probe_pause;
  out.emplace_back(Disconnect{});
  link_ = false;
  heartbeat_at_.reset();
  dial(endpoint, out);
}

}  // namespace dlaunch::agent
