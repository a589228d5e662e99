// Which shared libraries an ELF file names (64 bits, little endian; its DT_NEEDED entries). Any bytes give
// names or none. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/elf_sections.h"

namespace dlaunch::agent {

// "libc.so.6"; at most 1024, in the file's order.
std::vector<std::string> needed_libraries(const ReadAt& read);

}  // namespace dlaunch::agent
