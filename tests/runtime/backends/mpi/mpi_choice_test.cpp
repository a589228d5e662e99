#include "runtime/backends/mpi/mpi_choice.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace dlaunch::internal {
namespace {

using Libraries = std::vector<MpiLibrary>;
using Variables = std::map<std::string, std::string, std::less<>>;

MpiChoice choice(const Variables& variables, const Libraries& built, Libraries loaded = {}) {
  return choose_mpi(
      [&](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      {built, std::move(loaded)});
}

const Variables by_open_mpi{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}};
const Variables by_mpich{{"PMI_SIZE", "2"}, {"PMI_FD", "5"}};
const Libraries both{MpiLibrary::open_mpi, MpiLibrary::mpich};

TEST(MpiChoiceTest, TheLauncherDecides) {
  EXPECT_EQ(choice(by_open_mpi, both).library, MpiLibrary::open_mpi);
  EXPECT_EQ(choice(by_mpich, both).library, MpiLibrary::mpich);
  EXPECT_EQ(choice(by_mpich, both).why_not, "");
  EXPECT_EQ(choice({{"PMIX_RANK", "0"}}, both).library, MpiLibrary::open_mpi);
}

TEST(MpiChoiceTest, AProgramThatIsLinkedWithAnMpiGetsThatOne) {
  const Variables by_slurm{{"PMIX_RANK", "0"}, {"SLURM_PROCID", "0"}};
  EXPECT_EQ(choice(by_slurm, both, {MpiLibrary::mpich}).library, MpiLibrary::mpich);
  EXPECT_EQ(choice(by_slurm, both, {MpiLibrary::mpich}).why_not, "");
  EXPECT_EQ(choice(by_open_mpi, both, {MpiLibrary::open_mpi}).why_not, "");
}

TEST(MpiChoiceTest, RanksThatWouldNotFindEachOtherAreRejected) {
  EXPECT_EQ(choice(by_mpich, both, {MpiLibrary::open_mpi}).why_not,
            "the process has loaded Open MPI, and was started by a launcher of MPICH: use one MPI for both");
  EXPECT_EQ(
      choice(by_mpich, {MpiLibrary::open_mpi}).why_not,
      "the process was started by a launcher of MPICH, and the backend was built for Open MPI: use one MPI "
      "for both");
  EXPECT_EQ(choice(by_open_mpi, {MpiLibrary::mpich}, {MpiLibrary::open_mpi}).why_not,
            "the process has loaded Open MPI, and the backend was built for MPICH: use one MPI for both");
}

TEST(MpiChoiceTest, AnotherMpiIsTheOnlyOne) {
  EXPECT_EQ(choice(by_mpich, {MpiLibrary::other}).library, MpiLibrary::other);
  EXPECT_EQ(choice(by_mpich, {MpiLibrary::other}).why_not, "");
}

TEST(MpiChoiceTest, WithoutAWorldThereIsNone) {
  EXPECT_NE(choice({}, both).why_not.find("no MPI launcher started this process"), std::string::npos);
  EXPECT_EQ(choice(by_mpich, {}).why_not, "it was built without an MPI");
}

}  // namespace
}  // namespace dlaunch::internal
