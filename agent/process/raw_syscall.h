// A system call that does not write errno. A child that shares its parent's memory while the parent runs must
// not change the parent's variables, and errno is one of them.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace dlaunch::agent {

#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool raw_syscall_keeps_errno = true;
#else
inline constexpr bool raw_syscall_keeps_errno = false;
#endif

// Returns the result, or minus errno.
template <class... Arguments>
requires(sizeof...(Arguments) <= 5)
    __attribute__((always_inline)) inline long raw_syscall(long number, Arguments... arguments) {
  const std::uintptr_t given[5] = {(std::uintptr_t)(arguments)...};  // NOLINT: pointers and numbers alike
#if defined(__x86_64__)
  long result = number;
  register std::uintptr_t fourth asm("r10") = given[3];
  register std::uintptr_t fifth asm("r8") = given[4];
  asm volatile("syscall"
               : "+a"(result)
               : "D"(given[0]), "S"(given[1]), "d"(given[2]), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long which asm("x8") = number;
  register std::uintptr_t result asm("x0") = given[0];
  register std::uintptr_t second asm("x1") = given[1];
  register std::uintptr_t third asm("x2") = given[2];
  register std::uintptr_t fourth asm("x3") = given[3];
  register std::uintptr_t fifth asm("x4") = given[4];
  asm volatile("svc #0"
               : "+r"(result)
               : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
               : "memory");
  return static_cast<long>(result);
#else
  const long result = syscall(number, given[0], given[1], given[2], given[3], given[4]);
  return result < 0 ? -errno : result;
#endif
}

}  // namespace dlaunch::agent
