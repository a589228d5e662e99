// Memory for long data that arrive or wait to be sent.
//
// Memory from the system costs a page fault for each of its pages, and as much time as the data need on their
// way. So what was given back is kept for the next use, up to a limit. The kernel may take the pages of what
// is kept when memory is short.
#pragma once

#include <cstddef>
#include <memory>

namespace dlaunch::internal {

// At most so much is kept.
inline constexpr std::size_t most_kept_memory = std::size_t{128} * 1024 * 1024;

// Aligned to a cache line; its contents are undefined. Pages are taken when they are written. Throws
// std::bad_alloc. Any thread; given back by any thread.
std::shared_ptr<std::byte> allocate_block(std::size_t size);

// Of the process, for tests.
std::size_t kept_memory();

}  // namespace dlaunch::internal
