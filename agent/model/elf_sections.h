// The sections of an ELF file (64 bits, little endian), and the texts that they name. Any bytes give sections
// or none. Pure.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dlaunch::agent {

// Bytes of the file; fewer if it is shorter.
using ReadAt = std::function<std::string(std::uint64_t offset, std::size_t size)>;

std::vector<Elf64_Shdr> sections_of(const ReadAt& read);

// The text at this offset of a string table; empty: it is outside.
std::string name_at(const ReadAt& read, const Elf64_Shdr& names, std::uint64_t offset);

}  // namespace dlaunch::agent
