#include "agent/model/elf_symbols.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace dlaunch::agent {
namespace {

using Names = std::vector<std::string>;

template <class T>
void write(std::string& file, std::size_t offset, const T& value) {
  if (file.size() < offset + sizeof value) file.resize(offset + sizeof value);
  std::memcpy(file.data() + offset, &value, sizeof value);
}

ReadAt reader(const std::string& file) {
  return [&file](std::uint64_t offset, std::size_t size) {
    return offset > file.size() ? "" : file.substr(offset, size);
  };
}

Elf64_Sym function(std::uint32_t name, std::uint64_t value, std::uint64_t size) {
  Elf64_Sym symbol{};
  symbol.st_name = name;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = 1;
  symbol.st_value = value;
  symbol.st_size = size;
  return symbol;
}

// Two functions: alpha at 0x100, beta at 0x200; then an undefined one.
class ElfSymbolsTest : public ::testing::Test {
 protected:
  ElfSymbolsTest() {
    std::memcpy(header_.e_ident, ELFMAG, SELFMAG);
    header_.e_ident[EI_CLASS] = ELFCLASS64;
    header_.e_ident[EI_DATA] = ELFDATA2LSB;
    header_.e_shoff = 1000;
    header_.e_shentsize = sizeof(Elf64_Shdr);
    header_.e_shnum = 2;
    table_.sh_type = SHT_SYMTAB;
    table_.sh_offset = 200;
    table_.sh_size = 3 * sizeof(Elf64_Sym);
    table_.sh_link = 1;
    names_.sh_type = SHT_STRTAB;
    names_.sh_offset = 500;
    names_.sh_size = sizeof text;
    undefined_.st_shndx = SHN_UNDEF;
  }
  Names look_up(std::vector<std::uint64_t> addresses) {
    write(file_, 0, header_);
    write(file_, 200, function(1, 0x100, 0x10));
    write(file_, 200 + sizeof(Elf64_Sym), function(7, 0x200, 1));
    write(file_, 200 + 2 * sizeof(Elf64_Sym), undefined_);
    write(file_, 500, text);
    write(file_, 1000, table_);
    write(file_, 1000 + sizeof table_, names_);
    return function_names(reader(file_), addresses);
  }

  static constexpr char text[] = "\0alpha\0beta";
  Elf64_Ehdr header_{};
  Elf64_Shdr table_{};
  Elf64_Shdr names_{};
  Elf64_Sym undefined_ = function(1, 0x300, 0x10);
  std::string file_;
};

TEST_F(ElfSymbolsTest, AnAddressIsInTheFunctionThatHoldsIt) {
  EXPECT_EQ(look_up({0xff, 0x100, 0x10f, 0x110, 0x200, 0x201, 0x300}),
            (Names{"", "alpha", "alpha", "", "beta", "", ""}));
  table_.sh_type = SHT_DYNSYM;
  EXPECT_EQ(look_up({0x100}), Names{"alpha"});
  EXPECT_EQ(look_up({}), Names{});
}

TEST_F(ElfSymbolsTest, OtherFilesAndWrongNumbersNameNothing) {
  for (const int place : {EI_MAG0, EI_CLASS, EI_DATA}) {
    const unsigned char before = std::exchange(header_.e_ident[place], 99);
    EXPECT_EQ(look_up({0x100}), Names{""});
    header_.e_ident[place] = before;
  }
  table_.sh_link = 2;
  EXPECT_EQ(look_up({0x100}), Names{""});
  table_.sh_link = 1;
  table_.sh_size = UINT64_MAX;
  EXPECT_EQ(look_up({0x100}), Names{""});
  table_.sh_size = 1 << 20;
  EXPECT_EQ(look_up({0x100}), Names{"alpha"}) << "the file is shorter than the table";
  names_.sh_size = 1;
  EXPECT_EQ(look_up({0x100}), Names{""});
  names_.sh_size = sizeof text;
  names_.sh_offset = UINT64_MAX;
  EXPECT_EQ(look_up({0x100}), Names{""});
  header_.e_shoff = UINT64_MAX - 1;
  EXPECT_EQ(look_up({0x100}), Names{""});
}

TEST_F(ElfSymbolsTest, AnyPartOfAFileIsNoProblem) {
  (void)look_up({0x100});
  const std::vector<std::uint64_t> addresses{0x100, 0x200};
  for (std::size_t length = 0; length < file_.size(); ++length) {
    const std::string part = file_.substr(0, length);
    EXPECT_EQ(function_names(reader(part), addresses).size(), 2U);
  }
}

}  // namespace
}  // namespace dlaunch::agent
