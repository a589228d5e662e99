#include "agent/model/elf_symbols.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "agent/model/elf_sections.h"

namespace dlaunch::agent {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;

bool holds(const Elf64_Sym& symbol, std::uint64_t address) {
  const bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
  return is_function && address >= symbol.st_value && address - symbol.st_value < symbol.st_size;
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
