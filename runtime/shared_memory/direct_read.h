// Reads the memory of another process of this host: one copy, made by the kernel (process_vm_readv).
//
// The kernel may forbid it (Yama's ptrace_scope, seccomp, another user or PID namespace), and some memory
// cannot be read this way (a device's). So it is tried before it is used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlaunch::internal {

// A process, with a word in its memory that no other process has at that address: so a process that has got
// the number of one that has ended is recognised.
struct ProcessMemory {
  std::uint64_t process = 0;
  std::uint64_t token_address = 0;
  std::uint64_t token = 0;

  // This process. REQUIRES: `token` outlives all reads.
  static ProcessMemory own(const std::uint64_t& token);
};

// Copies `size` bytes. Returns false if the kernel does not allow it, that memory cannot be read, or the
// process has ended or is another one; then `to` may have other contents.
bool read_directly(const ProcessMemory& from, std::uint64_t address, std::byte* to, std::size_t size);

// Whether other processes could read the first and the last byte of this process's memory there.
bool is_readable_directly(const std::byte* begin, std::size_t size);

// Whether one copy by the kernel takes less time here than two by the program, or DLAUNCH_SHM_DIRECT is 1.
// Measured once with this process's own memory and two processors. Takes some 500 microseconds the first
// time, and longer if no other processor is free.
bool direct_reads_are_faster();

}  // namespace dlaunch::internal
