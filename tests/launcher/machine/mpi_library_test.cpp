#include "launcher/machine/mpi_library.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Names = std::vector<std::string>;

TEST(MpiLibraryTest, MpichAndItsRelativesSpeakPmi) {
  EXPECT_EQ(mpi_library(Names{"libm.so.6", "libmpich.so.12", "libc.so.6"}), MpiLibrary::mpich);
  EXPECT_EQ(mpi_library(Names{"libmpi.so.12"}), MpiLibrary::mpich) << "Intel MPI, MVAPICH";
  EXPECT_EQ(mpi_library(Names{"libmpi_gnu_123.so.12"}), MpiLibrary::mpich) << "Cray";
  EXPECT_EQ(mpi_library(Names{"libpmi.so.0"}), MpiLibrary::mpich) << "a program that uses PMI itself";
}

TEST(MpiLibraryTest, OpenMpiDoesNot) {
  EXPECT_EQ(mpi_library(Names{"libmpi.so.40", "libc.so.6"}), MpiLibrary::open_mpi);
  EXPECT_EQ(mpi_library(Names{"libmpi.so.20"}), MpiLibrary::open_mpi);
}

TEST(MpiLibraryTest, OtherProgramsHaveNone) {
  EXPECT_EQ(mpi_library(Names{"libc.so.6", "libmpiric.so.1"}), MpiLibrary::none);
  EXPECT_EQ(mpi_library(std::string("sh")), MpiLibrary::none);
  EXPECT_EQ(mpi_library(std::string("/nowhere")), MpiLibrary::none);
}

}  // namespace
}  // namespace dlaunch::launcher
