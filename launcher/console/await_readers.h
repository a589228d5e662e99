// Waits for the readers of dlaunch's own stdout and stderr, with a limit.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "agent/output/console.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// How long a wait may still take after it has been hurried: enough for a reader that reads.
inline constexpr Duration hurried_wait = std::chrono::milliseconds(200);

struct ReaderWait {
  // How long to wait for a reader that takes nothing; whenever it takes something, the time starts again.
  // None: no limit.
  std::optional<Duration> patience;
  // Called several times a second. After it first returns true, the wait takes at most `hurried_wait`.
  std::function<bool()> is_hurried;
};

// Blocks until everything queued is written, or the reader is gone, or the patience has ended: then the rest
// is dropped (agent::Console::dropped()). For the end of dlaunch, when the loop no longer runs.
void await_readers(std::span<agent::Console* const> consoles, const ReaderWait& wait);

}  // namespace dlaunch::launcher
