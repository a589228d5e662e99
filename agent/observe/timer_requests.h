// The timers that processes of a job set for themselves, like PyTorch's FileTimerClient: the process writes a
// line of JSON to a FIFO each time it sets or releases one. This file has the parser of these lines and the
// table of the timers. Pure. The bytes come from other programs and may be anything: memory is bounded.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// Clients write no more at once: longer writes to a FIFO are not atomic (PIPE_BUF).
inline constexpr std::size_t longest_timer_request = 4096;

// Splits the bytes of the FIFO into lines.
class TimerLines {
 public:
  // Calls take(line) with each line that is now complete, without its newline. A line that is too long is cut
  // one byte behind the limit, so that parse_timer_request() rejects it.
  template <class Take>
  void cut(std::string_view piece, Take&& take) {
    for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
      keep(piece.substr(0, end));
      take(std::string_view(partial_));
      partial_.clear();
      piece.remove_prefix(end + 1);
    }
    keep(piece);
  }

 private:
  void keep(std::string_view piece) {
    partial_.append(piece.substr(0, longest_timer_request + 1 - partial_.size()));
  }

  std::string partial_;
};

struct TimerRequest {
  std::int32_t pid = 0;          // the process that set it; > 0
  std::string scope;             // its name within the process; any text
  std::optional<Duration> left;  // until it expires, not negative; none: it is released
  int signo = SIGKILL;           // sent to the process when it expires; 0: none

  bool operator==(const TimerRequest&) const = default;
};

// `wall_s` is the current time in seconds since 1970. Clients send a time of day; the result has the time
// that is left, so that setting the clock later changes nothing. An invalid signal becomes SIGKILL; 0 or less
// means that the client asks for no signal.
Result<TimerRequest> parse_timer_request(std::string_view line, double wall_s);

// Identifies a process for good: its pid may be reused later.
struct TimedProcess {
  std::int32_t pid = 0;
  std::uint64_t birth = 0;                                // agent/platform/reaper.h
  auto operator<=>(const TimedProcess&) const = default;  // NOLINT(modernize-use-nullptr): its own mistake
};

class TimerBook {
 public:
  static constexpr std::size_t most = 4096;

  struct Expired {
    TimedProcess process;
    std::string scope;
    int signo = 0;
    bool operator==(const Expired&) const = default;
  };

  // Sets the timer, replaces it, or releases it. REQUIRES: `birth` is that of the process request.pid.
  // False: there are too many already, and this one is rejected.
  bool take(const TimerRequest& request, std::uint64_t birth, TimePoint now);

  // When the next timer expires.
  [[nodiscard]] std::optional<TimePoint> next() const;

  // Removes and returns, for each process with an expired timer, the timer that expired first; all other
  // timers of that process are removed, too. Also returns each expired timer without a signal; only that
  // timer is removed.
  std::vector<Expired> take_expired(TimePoint now);

  // Removes the timers of every process for which `is_gone` returns true; calls it once for each process.
  void forget(const std::function<bool(const TimedProcess&)>& is_gone);

  [[nodiscard]] std::size_t size() const { return timers_.size(); }

 private:
  struct Timer {
    TimePoint at;
    int signo = 0;
  };
  std::map<std::pair<TimedProcess, std::string>, Timer> timers_;
};

}  // namespace dlaunch::agent
