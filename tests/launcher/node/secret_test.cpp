#include "launcher/node/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace dlaunch::launcher {
namespace {

class SecretFile : public testing::Test {
 protected:
  SecretFile() {
    const int fd = mkstemp(path_.data());
    if (fd >= 0) close(fd);
  }
  ~SecretFile() override { unlink(path_.c_str()); }

  // What becomes of such a file: the secret, or the complaint.
  std::string read(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
    auto secret = read_secret(path_, "from the variable");
    return secret ? *secret : secret.error().message();
  }

  std::string path_ = testing::TempDir() + "secret_test.XXXXXX";
};

TEST_F(SecretFile, IsReadWithoutItsLineEnd) {
  EXPECT_EQ(read("s3cret\r\n", 0600), "s3cret");
  EXPECT_EQ(read("s3cret", 0400), "s3cret");
}

TEST_F(SecretFile, ThatOthersCanReadIsRefused) {
  const std::string begin =
      "cannot read the secret from " + path_ + ": other users can read or change it (its mode is ";
  EXPECT_EQ(read("s", 0644), begin + "0644); chmod 600 " + path_);
  EXPECT_EQ(read("s", 0602), begin + "0602); chmod 600 " + path_);
  EXPECT_EQ(read("s", 0640), begin + "0640); chmod 600 " + path_);
}

TEST_F(SecretFile, ThatHasNoneIsRefused) {
  EXPECT_EQ(read("\n", 0600), "cannot read the secret from " + path_ + ": it is empty");
  EXPECT_EQ(read(std::string(5000, 'x'), 0600),
            "cannot read the secret from " + path_ + ": it is longer than 4096 bytes");
  EXPECT_FALSE(read_secret(testing::TempDir(), "").ok());
  EXPECT_FALSE(read_secret(path_ + ".missing", "").ok());
}

TEST(SecretVariable, IsTakenAndGone) {
  setenv("DLAUNCH_TOKEN", "s3cret", 1);
  EXPECT_EQ(take_secret_variable(), "s3cret");
  EXPECT_EQ(std::getenv("DLAUNCH_TOKEN"), nullptr);
  EXPECT_EQ(take_secret_variable(), "");
  EXPECT_EQ(*read_secret("", "s3cret\n"), "s3cret");
  EXPECT_EQ(*read_secret("", ""), "");
}

}  // namespace
}  // namespace dlaunch::launcher
