// Waits for the readers of dlaunch's own stdout and stderr, but not for ever.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "agent/output/console.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// How long a wait may still take once it has been hurried: enough for a reader that reads.
inline constexpr Duration hurried_wait = std::chrono::milliseconds(200);

struct ReaderWait {
  // With a reader that takes nothing: one that takes something is waited for as long again. None: for ever.
  std::optional<Duration> patience;
  // Asked several times a second. From the first true on the wait takes no longer than `hurried_wait`.
  std::function<bool()> is_hurried;
};

// Blocks until everything queued is written, its reader has gone, or the patience with it has ended: then
// the rest is dropped (agent::Console::dropped()). For the end, when the loop no longer runs.
void await_readers(std::span<agent::Console* const> consoles, const ReaderWait& wait);

}  // namespace dlaunch::launcher
