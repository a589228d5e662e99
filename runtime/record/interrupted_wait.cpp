#include "runtime/record/interrupted_wait.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace dlaunch::internal {

#if defined(__x86_64__)

namespace {

constexpr std::array waiting = {SYS_nanosleep,    SYS_clock_nanosleep, SYS_poll,          SYS_ppoll,
                                SYS_select,       SYS_pselect6,        SYS_epoll_wait,    SYS_epoll_pwait,
                                SYS_epoll_pwait2, SYS_pause,           SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
                                SYS_semtimedop,   SYS_semop,           SYS_msgrcv,        SYS_msgsnd};
constexpr std::size_t instruction_size = 2;  // of "syscall"

}  // namespace

// The C library puts the number into eax right before the instruction, with an instruction between the two at
// most.
std::optional<int> waiting_call(std::span<const std::uint8_t, call_code_size> code) {
  constexpr std::array<std::uint8_t, instruction_size> syscall_instruction = {0x0f, 0x05};
  constexpr std::uint8_t move_to_eax = 0xb8;
  constexpr std::size_t move_size = 1 + sizeof(std::int32_t);
  constexpr std::size_t most_between = 6;
  if (!std::ranges::equal(code.last(instruction_size), syscall_instruction)) return {};
  const std::size_t nearest = code.size() - instruction_size - move_size;
  for (std::size_t between = 0; between <= most_between; ++between) {
    const std::size_t at = nearest - between;
    if (code[at] != move_to_eax) continue;
    std::int32_t number = 0;
    std::memcpy(&number, &code[at + 1], sizeof number);
    if (std::ranges::find(waiting, number) != waiting.end()) return number;
  }
  return {};
}

void repeat_interrupted_wait(void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (registers[REG_RAX] != -EINTR) return;
  const auto next = static_cast<std::uintptr_t>(registers[REG_RIP]);
  auto* const code =
      reinterpret_cast<std::uint8_t*>(next - call_code_size);  // NOLINT(performance-no-int-to-ptr)
  dl_find_object found{};
  if (_dl_find_object(code, &found) != 0) return;
  const std::optional<int> number =
      waiting_call(std::span<const std::uint8_t, call_code_size>(code, call_code_size));
  if (!number) return;
  registers[REG_RAX] = *number;
  registers[REG_RIP] -= instruction_size;
}

#else

std::optional<int> waiting_call(std::span<const std::uint8_t, call_code_size> /*code*/) { return {}; }
void repeat_interrupted_wait(void* /*context*/) {}

#endif

}  // namespace dlaunch::internal
