// One process on this machine that is the way to a host: ssh, or a shell. Its three streams are pipes.
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

// Passive: whoever watches the descriptors reads, writes and closes them.
struct HostProcess {
  struct Output {
    explicit Output(const std::string& key) : content(key) {}
    int fd = -1;
    agent::LineSplitter lines;
    AgentStream content;
    bool paused = false;
  };

  explicit HostProcess(const std::string& key) : outputs{Output(key), Output(key)} {}

  pid_t pid = 0;   // 0: it does not run
  int input = -1;  // -1: it has been hung up
  std::string unsent;
  std::array<Output, 2> outputs;  // by Stream
  agent::Tail tail;               // of stderr
  bool up = false;
};

// Runs the command in a session of its own: signals of the terminal are its caller's to pass on. The
// descriptors do not block, and are not inherited.
Result<void> spawn(const std::vector<std::string>& command, HostProcess& process);

}  // namespace dlaunch::launcher
