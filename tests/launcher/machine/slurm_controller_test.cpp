// With programs in place of scontrol that answer as a broken one might; tests/process/slurm_test.py has the
// real one.
#include "launcher/machine/slurm_controller.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/runtime/api/variable.h"

namespace dlaunch::launcher {
namespace {

class SlurmController : public ::testing::Test {
 protected:
  SlurmController() {
    std::string name = (std::filesystem::temp_directory_path() / "dlaunch_scontrol.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~SlurmController() override { std::filesystem::remove_all(folder_); }

  void install(const std::string& script) const {
    const std::string path = folder_ + "/scontrol";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
  }
  [[nodiscard]] std::string search_path() const { return folder_ + ":/usr/bin:/bin"; }

 private:
  std::string folder_;
};

TEST_F(SlurmController, IsAskedAboutOneNode) {
  install("echo \"$# $*\"; echo error >&2");
  const test::Variable path("PATH", search_path().c_str());
  EXPECT_EQ(*show_slurm_node("c03"), "2 show node=c03\nerror\n");
  EXPECT_EQ(*show_slurm_node("-d"), "2 show node=-d\nerror\n");
}

TEST_F(SlurmController, AnEndlessAnswerIsCut) {
  install("exec yes");
  const test::Variable path("PATH", search_path().c_str());
  EXPECT_EQ(show_slurm_node("c03")->size(), 64U * 1024);
}

TEST_F(SlurmController, WithoutAnAnswerThereIsAReason) {
  install("exec sleep 1000");
  const test::Variable path("PATH", search_path().c_str());
  EXPECT_EQ(show_slurm_node("c03", std::chrono::milliseconds(50)).error().message(),
            "scontrol has not answered in 50 ms");
}

TEST_F(SlurmController, WithoutScontrolThereIsAReason) {
  const test::Variable path("PATH", "/no/such/folder");
  EXPECT_EQ(show_slurm_node("c03").error().message(), "cannot run scontrol: No such file or directory");
}

}  // namespace
}  // namespace dlaunch::launcher
