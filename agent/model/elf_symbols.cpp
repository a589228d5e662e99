#include "agent/model/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace dlaunch::agent {
namespace {

constexpr std::size_t most_sections = 4096;
constexpr std::size_t longest_name = 2048;
constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;

template <class T>
std::optional<T> read_one(const ReadAt& read, std::uint64_t offset) {
  const std::string bytes = read(offset, sizeof(T));
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

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

bool holds(const Elf64_Sym& symbol, std::uint64_t address) {
  const bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
  return is_function && address >= symbol.st_value && address - symbol.st_value < symbol.st_size;
}

std::string name_at(const ReadAt& read, const Elf64_Shdr& names, std::uint32_t offset) {
  if (offset >= names.sh_size || names.sh_offset > UINT64_MAX - offset) return "";
  const std::string bytes = read(names.sh_offset + offset, longest_name);
  return bytes.substr(0, bytes.find('\0'));
}

// Reads a symbol table in pieces, and fills in the names that are missing.
void look_up(const ReadAt& read, const Elf64_Shdr& table, const Elf64_Shdr& names,
             std::span<const std::uint64_t> addresses, std::vector<std::string>& found) {
  constexpr std::size_t piece = 32768;
  const std::uint64_t count = table.sh_size / sizeof(Elf64_Sym);
  for (std::uint64_t first = 0; first < count; first += piece) {
    const std::uint64_t here = std::min<std::uint64_t>(piece, count - first);
    const std::string bytes = read(table.sh_offset + first * sizeof(Elf64_Sym), here * sizeof(Elf64_Sym));
    for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= bytes.size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, bytes.data() + at, sizeof symbol);
      for (std::size_t i = 0; i < addresses.size(); ++i) {
        if (found[i].empty() && holds(symbol, addresses[i])) found[i] = name_at(read, names, symbol.st_name);
      }
    }
    if (bytes.size() < here * sizeof(Elf64_Sym)) return;
  }
}

}  // namespace

std::vector<std::string> function_names(const ReadAt& read, std::span<const std::uint64_t> addresses) {
  std::vector<std::string> found(addresses.size());
  const std::vector<Elf64_Shdr> sections = sections_of(read);
  std::uint64_t rest = most_bytes;
  for (const auto type :
       {Elf64_Word{SHT_SYMTAB}, Elf64_Word{SHT_DYNSYM}}) {  // a stripped file has only the second
    for (const Elf64_Shdr& table : sections) {
      const bool is_usable = table.sh_type == type && table.sh_link < sections.size() &&
                             table.sh_size <= rest && table.sh_offset <= UINT64_MAX - table.sh_size;
      if (!is_usable) continue;
      rest -= table.sh_size;
      look_up(read, table, sections[table.sh_link], addresses, found);
    }
  }
  return found;
}

}  // namespace dlaunch::agent
