#include "launcher/machine/mpi_library.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

#include "agent/model/elf_libraries.h"
#include "launcher/machine/machine.h"

namespace dlaunch::launcher {

// MPICH, and all that keep its binary interface (Intel MPI, MVAPICH, Cray), have the version 12 in their
// library's name; Open MPI's had 20 and then 40.
MpiLibrary mpi_library(const std::vector<std::string>& libraries) {
  for (const std::string& name : libraries) {
    if (name.starts_with("libmpich.so") || name.starts_with("libpmi.so")) return MpiLibrary::mpich;
    if (name.starts_with("libmpi") && name.ends_with(".so.12")) return MpiLibrary::mpich;
    if (name.starts_with("libmpi.so.")) return MpiLibrary::open_mpi;
  }
  return MpiLibrary::none;
}

MpiLibrary mpi_library(const std::string& program) {
  const auto path = find_program(program);
  if (!path) return MpiLibrary::none;
  const int fd = open(path->c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return MpiLibrary::none;
  const MpiLibrary library =
      mpi_library(agent::needed_libraries([fd](std::uint64_t offset, std::size_t size) {
        std::string bytes(size, '\0');
        const ssize_t got = pread(fd, bytes.data(), size, static_cast<off_t>(offset));
        bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return bytes;
      }));
  close(fd);
  return library;
}

}  // namespace dlaunch::launcher
