#include "agent/process/clone_into_cgroup.h"

#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace dlaunch::agent {
namespace {

// Two processes return from this system call. The child has no stack frame to return to, so it must begin in
// assembly. The C library offers no clone3 to programs.
long clone3(clone_args& args, int (*main)(void*), void* argument) {
#if defined(__x86_64__)
  long result = SYS_clone3;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %[argument], %%rdi\n\t"
      "call *%[main]\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(&args), "S"(sizeof args), [main] "b"(main), [argument] "d"(argument)
      : "rcx", "r11", "cc", "memory");
  return result;
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register std::uintptr_t result asm("x0") = reinterpret_cast<std::uintptr_t>(&args);
  register std::size_t size asm("x1") = sizeof args;
  register auto entry asm("x9") = main;
  register void* passed asm("x10") = argument;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x10\n\t"
      "blr x9\n\t"
      "brk #0\n"
      "1:"
      : "+r"(result)
      : "r"(number), "r"(size), "r"(entry), "r"(passed)
      : "cc", "memory");
  return static_cast<long>(result);
#else
  (void)args, (void)main, (void)argument;
  return -ENOSYS;
#endif
}

}  // namespace

pid_t clone_into_cgroup(int cgroup, unsigned flags, int (*main)(void*), void* argument, char* stack,
                        std::size_t stack_size, pid_t* made) {
  clone_args args{};
  args.flags = flags | CLONE_INTO_CGROUP;
  args.exit_signal = (flags & CLONE_PARENT) != 0 ? 0 : SIGCHLD;  // a sibling has that of the caller
  args.parent_tid = reinterpret_cast<std::uintptr_t>(made);
  args.stack = reinterpret_cast<std::uintptr_t>(stack);
  args.stack_size = stack_size;
  args.cgroup = static_cast<std::uint64_t>(cgroup);
  const long pid = clone3(args, main, argument);
  if (pid >= 0) return static_cast<pid_t>(pid);
  errno = static_cast<int>(-pid);
  return -1;
}

}  // namespace dlaunch::agent
