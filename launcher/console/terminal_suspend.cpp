#include "launcher/console/terminal_suspend.h"

#include <csignal>

namespace dlaunch::launcher {

// The shell's job control sees only this process; the workers have sessions of their own. If no shell could
// continue this process (an orphaned process group, process 1), the kernel ignores the signal's default
// action, and all continue at once.
void suspend_with_terminal(UvPoller& poller, agent::KeeperSpawner& spawner, const agent::Output& output) {
  struct sigaction before {};
  sigaction(SIGTSTP, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  poller.on_signal(SIGTSTP, [&spawner, &output](int) {
    spawner.suspend();
    struct sigaction normal {};
    struct sigaction ours {};
    normal.sa_handler = SIG_DFL;
    sigaction(SIGTSTP, &normal, &ours);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &ours, nullptr);
    output.resize_terminals();
    spawner.resume();
  });
}

}  // namespace dlaunch::launcher
