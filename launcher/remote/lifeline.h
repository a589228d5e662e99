// The agent's end of --lifeline: standard input belongs to the dlaunch that started this one, and says what
// happens to it (remote_protocol.h).
#pragma once

#include <functional>
#include <string>

#include "launcher/options/lifeline_terms.h"
#include "launcher/remote/remote_protocol.h"
#include "store/base/io.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

// Takes standard input over and leaves /dev/null in its place. To be called before anything is started that
// inherits it. Returns the descriptor; it is not inherited.
int take_standard_input();

class Lifeline final : public agent::FdHandler, public TimerHandler {
 public:
  struct Calls {
    std::function<void(int signo)> signal;
    std::function<void(const std::string& why)> lost;  // nobody is there any more; at most once
  };

  // All but `calls` must outlive it. Owns `fd`.
  Lifeline(agent::UvPoller& poller, Clock& clock, Timers& timers, int fd, Calls calls);
  ~Lifeline() override;
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  [[nodiscard]] bool lost() const { return lost_; }
  // In place of the loop, while it does not run.
  void look();

  void on_readable(int fd) override;
  void on_writable(int fd) override;
  void on_timer(TimerId timer) override;

 private:
  void report_loss(const std::string& why);
  void expect_more();

  agent::UvPoller& poller_;
  Clock& clock_;
  Timers& timers_;
  const int fd_;
  const Calls calls_;
  LifelineReader reader_;
  TimerId silence_;
  TimePoint silent_at_;
  bool lost_ = false;
};

// The agent is up: from here on both streams are the job's. Before anything else is written to them.
void send_ready(const LifelineTerms& terms, const std::string& version);

}  // namespace dlaunch::launcher
