// What the header of a compiled program (ELF) says of the machine it is for. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlaunch::agent {

inline constexpr std::string_view elf_magic = "\177ELF";
// So many bytes of a file are enough.
inline constexpr std::size_t elf_beginning = 20;

// Why the kernel does not run a file that begins like this: "it is an aarch64 program, and this machine is
// x86_64", "it is an x86_64 program, but damaged, or not one that this kernel runs". Empty: it is no
// compiled program. `machine`: this one, as uname(2) calls it.
std::string why_not_run(std::string_view beginning, const std::string& machine);

}  // namespace dlaunch::agent
