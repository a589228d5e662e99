// libFuzzer: bytes in the FIFO of the workers' timers, in any pieces. Decoded requests are within their
// bounds, and the table of timers stays consistent.

#include <algorithm>
#include <string_view>

#include "agent/observe/timer_requests.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::agent;

constexpr double wall_s = 1'700'000'000;

void take(std::string_view line, TimerBook& book) {
  require(line.size() <= longest_timer_request + 1 && line.find('\n') == std::string_view::npos);
  const auto request = parse_timer_request(line, wall_s);
  if (!request) {
    require(request.error().message().find('\n') == std::string::npos);
    return;
  }
  require(request->pid > 0 && request->scope.size() <= line.size());
  require(request->signo >= 0 && request->signo <= SIGRTMAX);
  require(!request->left ||
          (*request->left >= Duration(0) && *request->left < std::chrono::hours(24 * 366 * 10)));
  require(book.take(*request, 1, TimePoint{}));  // the input is too short for more than there is room for
}

void fuzz(FuzzInput input) {
  TimerLines lines;
  TimerBook book;
  const std::size_t piece = std::size_t{1} + input.choice();
  const std::string_view all = input.text();
  for (std::size_t at = 0; at < all.size(); at += piece)
    lines.cut(all.substr(at, piece), [&](std::string_view line) { take(line, book); });
  while (const auto next = book.next()) {
    const auto expired = book.take_expired(*next);
    require(!expired.empty());
    // Each process gets at most one signal, and entries without one come last.
    const auto said =
        std::find_if(expired.begin(), expired.end(), [](const auto& one) { return one.signo == 0; });
    require(std::all_of(said, expired.end(), [](const auto& one) { return one.signo == 0; }));
    require(std::adjacent_find(expired.begin(), said, [](const auto& a, const auto& b) {
              return !(a.process < b.process);
            }) == said);
  }
  require(book.size() == 0);
}

}  // namespace
