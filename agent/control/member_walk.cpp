// How a member finds the endpoint whose coordinator leads the job: it walks along them, and asks from where
// it stays.
#include <algorithm>

#include "agent/control/member.h"

namespace dlaunch::agent {

// To the next endpoint; after the last one back to the first that took us, or, after a pause, from the
// beginning.
void Member::walk_on(TimePoint now, MemberActions& out) {
  state_ = State::connecting;
  if (++walked_ < endpoints()) {
    dial((endpoint_ + 1) % endpoints(), out);
    return;
  }
  walked_ = 0;
  if (taker_ && !staying_) {
    staying_ = true;
    stay_ = std::clamp(stay_per_walk * (now - walk_began_), shortest_stay, longest_stay);
    stay_until_ = now + stay_;
    asked_ = *taker_;
    ask_at_ = now + ask_pause;
    out.emplace_back(Say{Loudness::detail, "no endpoint leads the job: waiting at " +
                                               to_string(job_.endpoint(*taker_)) +
                                               ", and asking the others"});
    dial(*taker_, out);
    return;
  }
  taker_.reset();
  staying_ = false;
  endpoint_ = endpoints() - 1;
  dial_at_ = std::min(now + pause_, std::max(join_deadline_, now));
  pause_ = std::min(pause_ * 2, longest_pause);
}

void Member::ask_next(TimePoint now, MemberActions& out) {
  asked_ = (asked_ + 1) % endpoints();
  if (asked_ == endpoint_) asked_ = (asked_ + 1) % endpoints();
  ask_at_ = now + answer_time;
  out.emplace_back(AskEndpoint{asked_});
}

void Member::on_endpoint_answered(TimePoint now, const EndpointAnswered& answer, MemberActions& out) {
  if (!may_ask() || answer.endpoint != asked_) return;
  ask_at_ = now + ask_pause;
  if (!answer.answers) return;
  if (answer.leads) {
    out.emplace_back(Say{Loudness::detail, "the coordinator at " + to_string(job_.endpoint(answer.endpoint)) +
                                               " leads the job: joining it"});
    staying_ = false;
    taker_.reset();
    walked_ = 0;
    walk_began_ = now;
    move_to(now, answer.endpoint, out);
  } else if (!answer.elsewhere && answer.endpoint < endpoint_) {
    taker_ = answer.endpoint;
    stay_until_ = now + stay_;
    move_to(now, answer.endpoint, out);
  }
}

void Member::move_to(TimePoint now, std::size_t endpoint, MemberActions& out) {
  ask_at_ = now + ask_pause;
  out.emplace_back(HangUp{});
  link_ = false;
  beat_at_.reset();
  dial(endpoint, out);
}

}  // namespace dlaunch::agent
