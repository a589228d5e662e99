// Executes RemoteJob's actions with libuv, and forwards the output of the hosts.
//
// Memory is bounded as in agent::Output: while the reader of our stdout (stderr) is slow, nothing more is
// read from the hosts on that stream. Exception: if the reader takes nothing at all, node 0's stderr is read
// ahead up to its final messages, which report that the job has ended. Then such a reader is given up. Runs
// on the loop's thread.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "agent/output/console.h"
#include "launcher/remote/host_tree.h"
#include "launcher/remote/remote_job.h"
#include "store/base/lines.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

class RemoteRunner final : public FdHandler, public TimerHandler, public HostTree::Owner {
 public:
  using Consoles = std::array<agent::Console, 2>;  // stdout, stderr

  // All must outlive it. The loop is stopped when the job has ended. For `notice` see RemoteJob;
  // `reader_patience`: how long to wait for a reader that takes nothing, once the job is over.
  RemoteRunner(const RemotePlan& plan, Duration notice, Duration reader_patience, UvLoop& loop,
               UvPoller& poller, Consoles& consoles);
  ~RemoteRunner() override;
  RemoteRunner(const RemoteRunner&) = delete;
  RemoteRunner& operator=(const RemoteRunner&) = delete;

  void begin();
  void on_signal(int signo, bool stops);
  // A line of dlaunch's own on stderr, never inside a host's line.
  void write_own(std::string_view line);
  // Stops waiting for readers that have not taken everything.
  void give_up_readers();
  [[nodiscard]] bool was_hurried() const { return was_hurried_; }
  [[nodiscard]] const RemoteJob& job() const { return job_; }

  void on_readable(int fd) override;
  void on_writable(int fd) override;
  void on_timer(TimerId timer) override;

  void on_output(int node, Stream stream, std::string_view bytes) override;
  void on_connection_words(int node, std::string_view words) override;
  void on_gone(int node, const agent::ExitStatus& status) override;
  void on_not_run(int node, const std::string& why) override;

 private:
  // What has come from the host.
  struct Host {
    struct Output {
      explicit Output(const std::string& key) : content(key) {}
      LineSplitter lines;
      AgentStream content;
      bool paused = false;
    };
    explicit Host(const std::string& key) : outputs{Output(key), Output(key)} {}

    std::array<Output, 2> outputs;  // by Stream
    Tail tail;                      // of stderr
    bool is_running = false;
    bool up = false;
  };

  void happened(RemoteEvent event);
  void work();  // processes all queued events
  void act(const RemoteActions& actions);

  void run(int node, bool directly);
  void pass_on(std::size_t node, Stream stream, std::string_view lines);
  void on_message(std::size_t node, Stream stream, const AgentMessage& message);
  void pause_or_resume();
  void look_at_readers();
  [[nodiscard]] bool must_wait(std::size_t node, Stream stream, bool full) const;

  agent::Console& console(Stream stream) { return consoles_.at(static_cast<std::size_t>(stream)); }

  const RemotePlan& plan_;
  RemoteJob job_;
  UvLoop& loop_;
  UvPoller& poller_;
  Consoles& consoles_;
  HostTree tree_;
  std::vector<Host> hosts_;  // by node rank
  std::string joined_;       // a member so that its memory is reused
  std::deque<RemoteEvent> events_;
  bool working_ = false;
  TimerId job_timer_;
  TimerId heartbeat_timer_;
  const Duration reader_patience_;
  TimerId reader_timer_;               // armed while something is queued
  std::array<TimePoint, 2> taken_at_;  // by Stream: when the reader last took something
  bool was_hurried_ = false;           // give_up_readers() was called
  bool reads_ahead_ = false;           // node 0's stderr is read although the console is full
};

}  // namespace dlaunch::launcher
