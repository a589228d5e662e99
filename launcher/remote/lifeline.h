// The agent's end of --lifeline: the dlaunch that started this one writes to its standard input
// (remote_protocol.h).
#pragma once

#include <functional>
#include <string>

#include "launcher/options/lifeline_terms.h"
#include "launcher/remote/remote_protocol.h"
#include "store/base/io.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

// Moves standard input to a new descriptor, and opens /dev/null in its place. Call it before starting a
// process that inherits standard input. Returns the new descriptor, which is close-on-exec.
int take_standard_input();

class Lifeline final : public FdHandler, public TimerHandler {
 public:
  struct Calls {
    std::function<void(int signo)> signal;
    std::function<void(const std::string& why)> lost;  // the connection is lost; called at most once
  };

  // All but `calls` must outlive it. Owns `fd`.
  Lifeline(UvPoller& poller, Clock& clock, Timers& timers, int fd, Calls calls);
  ~Lifeline() override;
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  [[nodiscard]] bool lost() const { return lost_; }
  // Polls once, while the loop does not run.
  void look();

  void on_readable(int fd) override;
  void on_writable(int fd) override;
  void on_timer(TimerId timer) override;

 private:
  void report_loss(const std::string& why);
  void expect_more();

  UvPoller& poller_;
  Clock& clock_;
  Timers& timers_;
  const int fd_;
  const Calls calls_;
  LifelineReader reader_;
  TimerId silence_;
  TimePoint silent_at_;
  bool lost_ = false;
};

// Reports that the agent is up: from then on both streams carry the job's output. Call it before any other
// output.
void send_ready(const LifelineTerms& terms, const std::string& version);

}  // namespace dlaunch::launcher
