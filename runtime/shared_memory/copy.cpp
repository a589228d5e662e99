#include "runtime/shared_memory/copy.h"

#include <cstring>

namespace dlaunch::internal {
namespace {

constexpr std::size_t least = 2048;  // below, memmove takes no "rep movsb"
constexpr std::size_t width = 32;
constexpr std::size_t step = 4 * width;

using Vector = char __attribute__((vector_size(width)));

// All loads of a step come before its stores, so that the compiler does not make a call of memmove of the
// loop. Returns how many bytes it has copied: all but those behind the last whole step.
inline __attribute__((always_inline)) std::size_t copy_steps(char* to, const char* from, std::size_t size) {
  std::size_t at = 0;
  for (; at + step <= size; at += step) {
    Vector bytes[4];
    std::memcpy(&bytes[0], from + at, width);
    std::memcpy(&bytes[1], from + at + width, width);
    std::memcpy(&bytes[2], from + at + 2 * width, width);
    std::memcpy(&bytes[3], from + at + 3 * width, width);
    std::memcpy(to + at, &bytes[0], width);
    std::memcpy(to + at + width, &bytes[1], width);
    std::memcpy(to + at + 2 * width, &bytes[2], width);
    std::memcpy(to + at + 3 * width, &bytes[3], width);
  }
  return at;
}

std::size_t copy_plain(char* to, const char* from, std::size_t size) { return copy_steps(to, from, size); }

#if defined(__x86_64__)
__attribute__((target("avx"))) std::size_t copy_avx(char* to, const char* from, std::size_t size) {
  return copy_steps(to, from, size);
}
const bool has_avx = __builtin_cpu_supports("avx") != 0;
#endif

}  // namespace

void copy(std::byte* to, std::span<const std::byte> from) {
  auto* const target = reinterpret_cast<char*>(to);
  const auto* const source = reinterpret_cast<const char*>(from.data());
  const std::size_t size = from.size();
  if (size == 0 || target == source) return;
  const bool overlap = target < source + size && source < target + size;
  std::size_t done = 0;
  if (size >= least && !overlap) {
#if defined(__x86_64__)
    done = has_avx ? copy_avx(target, source, size) : copy_plain(target, source, size);
#else
    done = copy_plain(target, source, size);
#endif
  }
  if (done < size) std::memmove(target + done, source + done, size - done);
}

}  // namespace dlaunch::internal
