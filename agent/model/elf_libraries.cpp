#include "agent/model/elf_libraries.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace dlaunch::agent {

std::vector<std::string> needed_libraries(const ReadAt& read) {
  constexpr std::size_t most = 1024;
  constexpr std::uint64_t longest = most * 4 * sizeof(Elf64_Dyn);
  std::vector<std::string> names;
  const std::vector<Elf64_Shdr> sections = sections_of(read);
  const auto dynamic = std::find_if(sections.begin(), sections.end(),
                                    [](const Elf64_Shdr& one) { return one.sh_type == SHT_DYNAMIC; });
  if (dynamic == sections.end() || dynamic->sh_link >= sections.size()) return names;
  const std::string bytes =
      read(dynamic->sh_offset, static_cast<std::size_t>(std::min(dynamic->sh_size, longest)));
  for (std::size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size() && names.size() < most;
       at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag != DT_NEEDED) continue;
    std::string name = name_at(read, sections[dynamic->sh_link], entry.d_un.d_val);
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace dlaunch::agent
