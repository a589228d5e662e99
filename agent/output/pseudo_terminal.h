// Terminals for the output of workers.
#pragma once

#include <sys/ioctl.h>

#include <optional>

namespace dlaunch::agent {

// Both ends are close-on-exec and the caller's to close. What is written to `worker` is read from `agent`
// byte for byte (a newline stays one byte), which does not block; once no process has `worker` open, reading
// fails with EIO.
struct PseudoTerminal {
  int agent = -1;
  int worker = -1;
};

// It does not become a controlling terminal. None: errno has the reason, for example if /dev/pts is missing.
std::optional<PseudoTerminal> open_pseudo_terminal();

// The size of this process's own terminal: stdout, stderr or stdin; 80 columns and 24 rows if none of them is
// a terminal.
winsize own_window_size();

// Sets the size of the terminal whose `agent` end this is; the foreground process group of a controlling
// terminal receives SIGWINCH. Has no effect on a descriptor of another kind.
void set_window_size(int agent_end, const winsize& size);

}  // namespace dlaunch::agent
