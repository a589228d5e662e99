#include "agent/model/elf_sections.h"

#include <cstring>
#include <optional>

namespace dlaunch::agent {
namespace {

constexpr std::size_t most_sections = 4096;
constexpr std::size_t longest_section_name = 2048;

template <class T>
std::optional<T> read_one(const ReadAt& read, std::uint64_t offset) {
  const std::string bytes = read(offset, sizeof(T));
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

std::vector<Elf64_Shdr> sections_of(const ReadAt& read) {
  const auto header = read_one<Elf64_Ehdr>(read, 0);
  const bool is_known = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                        header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
                        header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shnum <= most_sections;
  if (!is_known) return {};
  std::vector<Elf64_Shdr> sections(header->e_shnum);
  const std::string bytes = read(header->e_shoff, sections.size() * sizeof(Elf64_Shdr));
  sections.resize(bytes.size() / sizeof(Elf64_Shdr));
  if (!sections.empty()) std::memcpy(sections.data(), bytes.data(), sections.size() * sizeof(Elf64_Shdr));
  return sections;
}

std::string name_at(const ReadAt& read, const Elf64_Shdr& names, std::uint64_t offset) {
  if (offset >= names.sh_size || names.sh_offset > UINT64_MAX - offset) return "";
  const std::string bytes = read(names.sh_offset + offset, longest_section_name);
  return bytes.substr(0, bytes.find('\0'));
}

}  // namespace dlaunch::agent
