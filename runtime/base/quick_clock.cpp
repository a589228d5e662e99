#include "runtime/base/quick_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace dlaunch::internal {

QuickClock::Anchor QuickClock::anchor;

#if defined(__x86_64__)

namespace {

// A rate is measured over this time at least, and an anchor is used for this time.
constexpr std::int64_t shortest_measurement = 20'000'000;  // ns
constexpr std::int64_t longest_first = 1'000'000'000;      // ns
constexpr std::int64_t anchor_life = 100'000'000;          // ns
// Nanoseconds a tick, times 2^32: counters of 10 GHz and of 200 MHz.
constexpr std::uint64_t lowest_rate = (std::uint64_t{1} << 32U) / 10;
constexpr std::uint64_t highest_rate = (std::uint64_t{1} << 32U) * 5;
// A look at both clocks takes less: some microseconds. In ticks of at most some GHz.
constexpr std::uint64_t longest_pair = 10'000;
// More than a look at the clock can be late.
constexpr std::int64_t largest_error = 50'000;  // ns

std::int64_t steady() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The kernel takes it off the list when the processors' counters differ.
bool is_trusted_by_the_kernel() {
  char text[256] = {};
  const int fd =
      open("/sys/devices/system/clocksource/clocksource0/available_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  return got > 0 &&
         std::string_view(text, static_cast<std::size_t>(got)).find("tsc") != std::string_view::npos;
}

// The counter's rate does not change with the processor's.
bool has_constant_rate() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned power_leaf = 0x80000007;
  constexpr unsigned invariant = 1U << 8U;
  return __get_cpuid(power_leaf, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
}

}  // namespace

// Renews the anchor, if no other thread does.
Deadline QuickClock::read_slowly() {
  static const bool usable = has_constant_rate() && is_trusted_by_the_kernel();
  const std::uint64_t ticks = __rdtsc();
  const std::int64_t ns = steady();
  // If this thread lost its processor between the two looks, they do not belong together.
  const bool is_pair = __rdtsc() - ticks < longest_pair;
  std::uint64_t seqlock = anchor.seqlock.load(std::memory_order_relaxed);
  if (!usable || !is_pair || seqlock % 2 != 0 ||
      !anchor.seqlock.compare_exchange_strong(seqlock, seqlock + 1, std::memory_order_acquire)) {
    return at(ns);
  }
  const std::uint64_t elapsed_ticks = ticks - anchor.ticks.load(std::memory_order_relaxed);
  const std::int64_t elapsed = ns - anchor.ns.load(std::memory_order_relaxed);
  const std::uint64_t rate = anchor.ns_per_tick.load(std::memory_order_relaxed);
  bool renewed = seqlock == 0;
  std::uint64_t new_rate = 0;
  if (!renewed && elapsed >= shortest_measurement && elapsed_ticks > 0) {
    __extension__ using Wide = unsigned __int128;
    new_rate =
        static_cast<std::uint64_t>((Wide{static_cast<std::uint64_t>(elapsed)} << shift) / elapsed_ticks);
    // A measured rate holds for the next anchor only if it agrees with the one before.
    const std::int64_t error = converted(elapsed_ticks, rate) - elapsed;
    const std::int64_t most = largest_error + elapsed / 10'000;
    if (rate != 0 && (error > most || -error > most)) new_rate = 0;
    // The first rate cannot be compared: it must be measured without a suspend in between, and be possible.
    if (rate == 0 && (elapsed > longest_first || new_rate < lowest_rate || new_rate > highest_rate))
      new_rate = 0;
    renewed = true;
  }
  if (renewed) {
    anchor.ticks.store(ticks, std::memory_order_release);
    anchor.ns.store(ns, std::memory_order_release);
    anchor.ns_per_tick.store(new_rate, std::memory_order_release);
    const std::uint64_t valid =
        new_rate == 0 ? 0 : (static_cast<std::uint64_t>(anchor_life) << shift) / new_rate;
    anchor.valid_ticks.store(valid, std::memory_order_release);
  }
  anchor.seqlock.store(seqlock + 2, std::memory_order_release);
  return at(ns);
}

#endif

}  // namespace dlaunch::internal
