#include "launcher/machine/mpi_proxy.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

namespace dlaunch::launcher {
namespace {

// What a process finds whose ancestors have these names, the first being the farthest.
std::string found_below(const std::vector<std::string>& names, pid_t* first = nullptr) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const std::function<void(std::size_t)> descend = [&](std::size_t at) {
    const pid_t child = fork();
    if (child != 0) {
      if (at == 0 && first != nullptr) *first = child;
      waitpid(child, nullptr, 0);
      if (at > 0) _exit(0);
      return;
    }
    if (at < names.size()) {
      prctl(PR_SET_NAME, names[at].c_str());
      descend(at + 1);
    }
    const std::string proxy = hydra_proxy();
    _exit(write(ends[1], proxy.data(), proxy.size()) < 0 ? 1 : 0);
  };
  descend(0);
  close(ends[1]);
  std::string text(256, ' ');
  const ssize_t got = read(ends[0], text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  close(ends[0]);
  return text;
}

TEST(HydraProxy, IsTheNearestAncestorOfItsName) {
  pid_t proxy = 0;
  const std::string found = found_below({"hydra_pmi_proxy", "sh"}, &proxy);
  EXPECT_TRUE(found.starts_with(std::to_string(proxy) + ".")) << found;
  const std::string began = found.substr(found.find('.') + 1);
  EXPECT_FALSE(began.empty());
  EXPECT_EQ(began.find_first_not_of("0123456789"), std::string::npos) << found;
  EXPECT_FALSE(
      found_below({"hydra_mpiexec", "hydra_pmi_proxy"}, &proxy).starts_with(std::to_string(proxy) + "."));
}

TEST(HydraProxy, ANameMayHaveBracketsAndBlanks) {
  EXPECT_NE(found_below({"hydra_pmi_proxy", "a) (b 1 2"}), "");
  EXPECT_NE(found_below({"hydra_) 1 2"}), "");
}

TEST(HydraProxy, WithoutSuchAnAncestorThereIsNone) { EXPECT_EQ(found_below({"sh", "my_hydra_x"}), ""); }

}  // namespace
}  // namespace dlaunch::launcher
