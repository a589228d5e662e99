// Reads from the header of a compiled program (ELF) for which machine it was built. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlaunch::agent {

inline constexpr std::string_view elf_magic = "\177ELF";
// The first bytes of a file that why_not_run() needs.
inline constexpr std::size_t elf_beginning = 20;

// Why the kernel does not run a file with this beginning: "it is an aarch64 program, and this machine is
// x86_64", "it is an x86_64 program, but damaged, or not one that this kernel runs". Empty: it is not a
// compiled program. `machine`: this machine's name as uname(2) returns it.
std::string why_not_run(std::string_view beginning, const std::string& machine);

}  // namespace dlaunch::agent
