// The timers that processes of a job set for themselves, as PyTorch's FileTimerClient does: each time one is
// set or released, it writes a line of JSON to a FIFO. Here are the parser of these lines and the book of the
// timers. Pure. The bytes are other programs' and may be anything: memory is bounded, whatever comes.
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

// A client writes no more in one piece: longer ones would not stay in one (PIPE_BUF).
inline constexpr std::size_t longest_timer_request = 4096;

// Cuts what comes out of the FIFO into lines.
class TimerLines {
 public:
  // Calls take(line) with each that is now complete, without its end. Of one that is too long only so much
  // comes that parse_timer_request() sees that it is.
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
  std::int32_t pid = 0;          // whose it is; > 0
  std::string scope;             // names it among those of its process; any text
  std::optional<Duration> left;  // until it expires, not negative; none: it is released
  int signo = SIGKILL;           // what its process is sent then; 0: nothing

  bool operator==(const TimerRequest&) const = default;
};

// `wall_s` are the seconds since 1970 now: clients name a time of day, and what is kept is how far away that
// is, so that a clock that is set later changes nothing. A signal that is no signal is SIGKILL, but for one
// of 0 or less, by which clients ask for none.
Result<TimerRequest> parse_timer_request(std::string_view line, double wall_s);

// A process for good: its pid may be another's later.
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

  // Sets the timer, sets it anew, or releases it. REQUIRES: `birth` is that of the process request.pid.
  // False: there are too many already, and this one is not kept.
  bool take(const TimerRequest& request, std::uint64_t birth, TimePoint now);

  // When the next expires.
  [[nodiscard]] std::optional<TimePoint> next() const;

  // Of each process of which a timer has expired, the one that did so first. All others of that process are
  // forgotten with it. Besides, each that asks for no signal: it alone is forgotten.
  std::vector<Expired> take_expired(TimePoint now);

  // Drops those of every process that `is_gone`, which is asked once for each.
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
