// Function names from the symbol tables of an ELF file (64 bits, little endian): enough to name the frames of
// a stack, without a debugger. Any bytes give names or none. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/model/elf_sections.h"

namespace dlaunch::agent {

// The function that holds each of these addresses (as the file counts them), as the linker knows it; empty:
// not known. Reads at most 64 MiB.
std::vector<std::string> function_names(const ReadAt& read, std::span<const std::uint64_t> addresses);

}  // namespace dlaunch::agent
