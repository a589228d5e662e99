#include "agent/observe/library_remedy.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

std::string remedy(std::string_view lines) { return remedy_of_library_error(lines, "./train", " on host b"); }

TEST(LibraryRemedy, AVariableThatWasChangedBehindDlaunch) {
  EXPECT_EQ(remedy("train: cannot find the other ranks: the environment variable WORLD_SIZE is 'abc', not a "
                   "number; dlaunch had "
                   "set it: something between dlaunch and this program changed it\n"),
            "let nothing between dlaunch and ./train on host b set WORLD_SIZE (a wrapper script, the "
            "environment of a container); "
            "dlaunch sets it for each worker");
  EXPECT_EQ(remedy("; dlaunch had set it: something between"), "");
}

TEST(LibraryRemedy, ARankThatTwoProcessesHave) {
  EXPECT_TRUE(remedy("train: rank 0, init_process_group: two processes have joined as rank 0: pid 4 on b and "
                     "this one, pid 5 on b")
                  .starts_with("let nothing between dlaunch and ./train on host b set RANK ("));
}

TEST(LibraryRemedy, AnInterfaceThatIsNotThere) {
  EXPECT_EQ(
      remedy("train: rank 0, init_process_group: cannot use the network interface 'eth9': this machine has "
             "no interface of "
             "that name; it has eth0, lo (GLOO_SOCKET_IFNAME)\n"),
      "unset GLOO_SOCKET_IFNAME, or name with it an interface of every host (here on host b: eth0, lo)");
  EXPECT_EQ(remedy("x: cannot use the network interface 'eth9': it is down"), "");
}

TEST(LibraryRemedy, ABackendThatIsNotThereOrCannotBeUsed) {
  EXPECT_TRUE(
      remedy("train: rank 0, init_process_group: unknown backend 'ucc': known backends: gloo (usable)\n")
          .starts_with("use one of the backends that are there, or install the module backend_ucc.so on host "
                       "b in a folder "));
  EXPECT_EQ(
      remedy("train: rank 0, init_process_group: backend 'nccl' cannot be used: there is no NVIDIA driver"),
      "use the backend gloo, which needs neither a GPU nor MPI, or correct this on host b: there is no "
      "NVIDIA driver");
}

TEST(LibraryRemedy, NothingForOtherErrors) {
  EXPECT_EQ(remedy(""), "");
  EXPECT_EQ(remedy("train: loss is NaN"), "");
}

}  // namespace
}  // namespace dlaunch::agent
