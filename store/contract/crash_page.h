// The part of a worker's page that shows how its process crashes: by a signal of its own fault, or by
// std::terminate. The crashing process writes it in a signal handler (runtime/record/crash_recorder.h), its
// agent reads it after the end (agent/model/crash.h).
//
// While the process lives, the same part shows where its main thread was when the agent asked, by
// stack_signal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "store/base/namespaces.h"

namespace dlaunch::store::page {

// SIGURG: by default it is ignored, so a process that has no handler for it takes no harm.
inline constexpr int stack_signal = 23;

struct Crash {
  static constexpr std::size_t max_frames = 48;
  static constexpr std::size_t max_modules = 12;
  static constexpr std::uint8_t no_module = 255;

  enum State : std::uint32_t { none = 0, writing, whole, sampled };

  std::uint32_t state;  // written last
  std::int32_t thread;  // its id
  std::int32_t signal;  // SIGABRT for std::terminate; stack_signal: the process lives
  std::int32_t code;    // siginfo_t::si_code; 0 and less: a process sent the signal
  // That the signal names; of a sent one, the sender's pid; of stack_signal, when it came.
  std::uint64_t address;
  std::uint32_t frames;    // of the stack, the innermost first
  std::uint32_t modules;   // files with machine code: the program, its libraries
  std::uint8_t terminate;  // 1: std::terminate was called
  std::uint8_t samples;    // 1: stack_signal makes the process write its stack
  std::array<std::uint8_t, 6> reserved;
  std::array<char, 256> what;  // the exception that std::terminate was called for: "std::bad_alloc: ..."

  // An address within the instruction that each frame is in: as the file counts it, or, without a module, in
  // memory.
  std::array<std::uint64_t, max_frames> offsets;
  std::array<std::uint8_t, max_frames> module_of;
  std::array<std::array<char, 160>, max_modules> paths;  // end with a zero byte
};

}  // namespace dlaunch::store::page
