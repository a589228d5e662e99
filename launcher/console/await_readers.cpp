#include "launcher/console/await_readers.h"

#include <poll.h>

#include <algorithm>
#include <vector>

#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

// Interval of the checks of is_hurried() and of what the readers have taken.
constexpr Duration look_every = std::chrono::milliseconds(50);

struct Reader {
  agent::Console* console;
  TimePoint moved;  // when it last took something
};

void wait_a_moment(const std::vector<Reader>& readers) {
  std::vector<pollfd> waiting;
  Duration pause = look_every;
  for (const Reader& reader : readers) {
    if (reader.console->wants_writing()) waiting.push_back({reader.console->fd(), POLLOUT, 0});
    // The console's thread has the rest; its end cannot be polled for.
    if (!reader.console->is_empty() && !reader.console->wants_writing()) pause = std::chrono::milliseconds(1);
  }
  poll(waiting.data(), waiting.size(), static_cast<int>(to_millis(pause)));
}

}  // namespace

void await_readers(std::span<agent::Console* const> consoles, const ReaderWait& wait) {
  std::vector<Reader> readers;
  for (agent::Console* console : consoles) readers.push_back({console, steady_now()});
  std::optional<TimePoint> end;  // set once hurried
  while (true) {
    const TimePoint now = steady_now();
    if (!end && wait.is_hurried && wait.is_hurried()) end = now + hurried_wait;
    bool some_wait = false;
    for (Reader& reader : readers) {
      reader.console->push();
      if (reader.console->has_moved()) reader.moved = now;
      const bool is_over = (wait.patience && now - reader.moved >= *wait.patience) || (end && now >= *end);
      if (!reader.console->is_empty() && is_over) reader.console->give_up();
      some_wait = some_wait || !reader.console->is_empty();
    }
    if (!some_wait) return;
    wait_a_moment(readers);
  }
}

}  // namespace dlaunch::launcher
