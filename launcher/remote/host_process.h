// The process on this machine that connects to a host: ssh, or a shell. Its three streams are pipes.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/remote/remote_protocol.h"
#include "store/base/lines.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

enum class Stream : std::uint8_t { out, err };

// Passive: its owner watches, reads, writes and closes the descriptors.
struct HostProcess {
  struct Output {
    explicit Output(const std::string& key) : content(key) {}
    int fd = -1;
    LineSplitter lines;
    AgentStream content;
    bool paused = false;
  };

  explicit HostProcess(const std::string& key) : outputs{Output(key), Output(key)} {}

  pid_t pid = 0;   // 0: not running
  int input = -1;  // -1: closed
  std::string unsent;
  std::array<Output, 2> outputs;  // by Stream
  Tail tail;                      // of stderr
  bool up = false;
};

// Runs the command in its own session: the caller must forward the terminal's signals. The descriptors are
// non-blocking and close-on-exec.
Result<void> spawn(const std::vector<std::string>& command, HostProcess& process);

}  // namespace dlaunch::launcher
