#include "agent/observe/timer_requests.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

using Json = nlohmann::json;

constexpr std::size_t quoted_characters = 60;
constexpr int deepest_request = 1;  // a request is flat
constexpr std::int64_t known_version = 1;
constexpr double longest_s = 10.0 * 365 * 24 * 3600;  // longer times are cut to this

std::optional<std::int64_t> integer_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > largest) return std::nullopt;
  return found->get<std::int64_t>();
}

int signal_at(const Json& object) {
  const auto signo = integer_at(object, "signal").value_or(SIGKILL);
  if (signo <= 0) return 0;
  return signo <= SIGRTMAX ? static_cast<int>(signo) : SIGKILL;
}

std::optional<Duration> left_until(double expires_s, double wall_s) {
  if (expires_s < 0) return std::nullopt;
  const std::chrono::duration<double> left(std::clamp(expires_s - wall_s, 0.0, longest_s));
  return std::chrono::duration_cast<Duration>(left);
}

}  // namespace

Result<TimerRequest> parse_timer_request(std::string_view line, double wall_s) {
  const auto bad = [&](const std::string& why) {
    return Error{
        ErrorKind::invalid, "cannot read a request for a timer", "", why,
        "it begins with '" +
            shortened(sanitize_for_terminal(line.substr(0, 4 * quoted_characters)), quoted_characters) + "'"};
  };
  if (line.size() > longest_timer_request)
    return bad("it is longer than " + std::to_string(longest_timer_request) + " bytes");
  const Json json = Json::parse(
      line, [](int depth, Json::parse_event_t, Json&) { return depth <= deepest_request; }, false);
  if (!json.is_object()) return bad("it is not a JSON object");
  if (json.contains("version") && integer_at(json, "version") != known_version)
    return bad("its version is unknown");

  TimerRequest request;
  const auto pid = integer_at(json, "pid");
  if (!pid || *pid <= 0 || *pid > std::numeric_limits<std::int32_t>::max())
    return bad("its 'pid' is not a process id");
  request.pid = static_cast<std::int32_t>(*pid);
  const auto scope = json.find("scope_id");
  if (scope == json.end() || !scope->is_string()) return bad("its 'scope_id' is not a string");
  request.scope = scope->get<std::string>();
  const auto expires = json.find("expiration_time");
  if (expires == json.end() || !expires->is_number()) return bad("its 'expiration_time' is not a number");
  request.left = left_until(expires->get<double>(), wall_s);
  request.signo = signal_at(json);
  return request;
}

bool TimerBook::take(const TimerRequest& request, std::uint64_t birth, TimePoint now) {
  const std::pair key(TimedProcess{request.pid, birth}, request.scope);
  if (!request.left) {
    timers_.erase(key);
    return true;
  }
  const Timer timer{now + *request.left, request.signo};
  if (const auto found = timers_.find(key); found != timers_.end()) {
    found->second = timer;
    return true;
  }
  if (timers_.size() >= most) return false;
  timers_.emplace(key, timer);
  return true;
}

std::optional<TimePoint> TimerBook::next() const {
  const auto sooner = [](const auto& a, const auto& b) { return a.second.at < b.second.at; };
  const auto first = std::min_element(timers_.begin(), timers_.end(), sooner);
  return first == timers_.end() ? std::nullopt : std::optional(first->second.at);
}

std::vector<TimerBook::Expired> TimerBook::take_expired(TimePoint now) {
  std::vector<Expired> only_said;
  std::erase_if(timers_, [&](const auto& one) {
    const bool is_over = one.second.signo == 0 && one.second.at <= now;
    if (is_over) only_said.push_back({one.first.first, one.first.second, 0});
    return is_over;
  });
  std::vector<Expired> expired;
  TimePoint first;                            // when the last one in `expired` expired
  for (const auto& [key, timer] : timers_) {  // the timers of one process are neighbours
    const auto& [process, scope] = key;
    if (timer.at > now) continue;
    const bool same = !expired.empty() && expired.back().process == process;
    if (same && timer.at >= first) continue;
    if (same) expired.pop_back();
    expired.push_back({process, scope, timer.signo});
    first = timer.at;
  }
  for (const Expired& one : expired) {
    const auto begin = timers_.lower_bound({one.process, ""});
    timers_.erase(begin, std::find_if(begin, timers_.end(),
                                      [&](const auto& timer) { return timer.first.first != one.process; }));
  }
  expired.insert(expired.end(), only_said.begin(), only_said.end());
  return expired;
}

void TimerBook::forget(const std::function<bool(const TimedProcess&)>& is_gone) {
  std::optional<TimedProcess> last;  // the timers of one process are neighbours
  bool gone = false;
  std::erase_if(timers_, [&](const auto& timer) {
    if (std::exchange(last, timer.first.first) != timer.first.first) gone = is_gone(*last);
    return gone;
  });
}

}  // namespace dlaunch::agent
