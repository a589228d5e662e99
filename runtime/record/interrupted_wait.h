// A system call that waits, and that a signal handler has interrupted, is made again.
//
// SA_RESTART does not do that: sleeping, poll(), epoll_wait(), select(), pause() and their kin return EINTR
// after any handler (signal(7)), and many programs take that for an error or for the end of the wait. A
// handler that the program knows nothing of must not do that to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace dlaunch::internal {

// Bytes of code before the end of a system call's instruction that show which one it was.
inline constexpr std::size_t call_code_size = 16;

// The number of the call that this code has made, which ends with the call's instruction; none: it is not one
// of those that wait, or the code does not show it. Pure.
std::optional<int> waiting_call(std::span<const std::uint8_t, call_code_size> code);

// At the end of a signal handler, with its third argument. If the handler has interrupted such a call, the
// thread makes it again with the same arguments. A time limit then starts again, unless the call has noted
// what was left of it. Does nothing on processors other than x86-64, and for code outside of ELF objects.
// Async-signal-safe.
void repeat_interrupted_wait(void* context);

}  // namespace dlaunch::internal
