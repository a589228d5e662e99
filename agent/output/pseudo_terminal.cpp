#include "agent/output/pseudo_terminal.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace dlaunch::agent {
namespace {

// If our own output is a terminal, that terminal converts newlines. Log files and reports need them
// unchanged.
bool pass_bytes_unchanged(int terminal) {
  termios settings{};
  if (tcgetattr(terminal, &settings) != 0) return false;
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  return tcsetattr(terminal, TCSANOW, &settings) == 0;
}

}  // namespace

std::optional<PseudoTerminal> open_pseudo_terminal() {
  PseudoTerminal terminal;
  terminal.agent = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (terminal.agent < 0) return std::nullopt;
  // By the open end, not by a name: another mount namespace may have another /dev/pts.
  if (unlockpt(terminal.agent) == 0)
    terminal.worker = ioctl(terminal.agent, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal.worker >= 0 && pass_bytes_unchanged(terminal.worker)) {
    set_window_size(terminal.agent, own_window_size());
    return terminal;
  }
  const int why = errno;
  close(terminal.agent);
  if (terminal.worker >= 0) close(terminal.worker);
  errno = why;
  return std::nullopt;
}

winsize own_window_size() {
  winsize size{};
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO, STDIN_FILENO}) {
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size;
  }
  constexpr unsigned short usual_rows = 24;
  constexpr unsigned short usual_columns = 80;
  return {usual_rows, usual_columns, 0, 0};
}

void set_window_size(int agent_end, const winsize& size) { ioctl(agent_end, TIOCSWINSZ, &size); }

}  // namespace dlaunch::agent
