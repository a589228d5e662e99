// A probe on another host, seen from the dlaunch that started it: its lines, and its end. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/model/exit_status.h"
#include "launcher/remote/piped_process.h"
#include "launcher/remote/relay_protocol.h"
#include "store/base/lines.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

class RemoteProbe {
 public:
  RemoteProbe() = default;
  ~RemoteProbe();  // kills what still runs on this machine for it
  RemoteProbe(const RemoteProbe&) = delete;
  RemoteProbe& operator=(const RemoteProbe&) = delete;

  // `command` ends in a shell, which reads `script`.
  Result<void> start(const std::vector<std::string>& command, const std::string& script);
  // False: it has ended, or does not read.
  bool send(const std::string& line);
  // No more orders: it ends.
  void end_input();

  // The probe's next line, without mark and end.
  std::optional<std::string> take_line();
  // How the process on this machine ended; none: it runs.
  [[nodiscard]] const std::optional<agent::ExitStatus>& ended() const { return ended_; }
  // The last lines of its stderr, or of ssh's.
  [[nodiscard]] std::string stderr_tail() const { return tail_.text(); }

  // Reads until each of them has a line or has ended, or the deadline.
  static void await_lines(const std::vector<RemoteProbe*>& probes, TimePoint deadline);
  // The same until each of them has ended.
  static void await_ends(const std::vector<RemoteProbe*>& probes, TimePoint deadline);

 private:
  static void await(const std::vector<RemoteProbe*>& probes, TimePoint deadline,
                    const std::function<bool(const RemoteProbe&)>& done);
  bool read_from(Stream stream);
  void keep_lines(const std::string& text);
  void look();

  PipedProcess process_;  // -1: a descriptor that is closed
  Tail tail_;             // of its stderr
  std::string partial_;
  std::deque<std::string> lines_;
  std::optional<agent::ExitStatus> ended_;
};

}  // namespace dlaunch::launcher
