#include "agent/process/elf_machine.h"

#include <elf.h>

#include <array>
#include <utility>

namespace dlaunch::agent {
namespace {

constexpr std::size_t machine_at = 18;

constexpr std::array<std::pair<unsigned, std::string_view>, 10> names{{{EM_386, "i386"},
                                                                       {EM_X86_64, "x86_64"},
                                                                       {EM_ARM, "arm"},
                                                                       {EM_AARCH64, "aarch64"},
                                                                       {EM_PPC64, "ppc64"},
                                                                       {EM_RISCV, "riscv"},
                                                                       {EM_S390, "s390x"},
                                                                       {EM_MIPS, "mips"},
                                                                       {EM_SPARCV9, "sparc64"},
                                                                       {EM_IA_64, "ia64"}}};

std::string name_of(unsigned machine) {
  for (const auto& [number, name] : names) {
    if (number == machine) return std::string(name);
  }
  return "ELF (machine " + std::to_string(machine) + ")";
}

// "an aarch64", "a ppc64".
std::string with_article(const std::string& name) {
  return (std::string_view("aeixsE").find(name.front()) != std::string_view::npos ? "an " : "a ") + name;
}

// uname returns "riscv64" and "ppc64le"; the header names only the family.
bool is_same(const std::string& name, const std::string& machine) {
  return machine.starts_with(name) || (name == "i386" && machine == "i686");
}

}  // namespace

std::string why_not_run(std::string_view beginning, const std::string& machine) {
  if (!beginning.starts_with(elf_magic)) return "";
  if (beginning.size() < elf_beginning) return "it is a compiled program, but cut short";
  const auto byte = [&](std::size_t at) -> unsigned { return static_cast<unsigned char>(beginning[at]); };
  const bool is_big = byte(EI_DATA) == ELFDATA2MSB;
  const unsigned number =
      is_big ? byte(machine_at) << 8U | byte(machine_at + 1) : byte(machine_at + 1) << 8U | byte(machine_at);
  const std::string name = name_of(number);
  if (is_same(name, machine))
    return "it is " + with_article(name) + " program, but damaged, or not one that this kernel runs";
  return "it is " + with_article(name) + " program, and this machine is " + machine +
         " (build it for this one)";
}

}  // namespace dlaunch::agent
