#include "launcher/remote/ssh_diagnosis.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using agent::ExitStatus;

std::string explained(const std::string& stderr_tail, int code = 255, const std::string& program = "ssh") {
  return explain({"b", "x@b", 2, program, {ExitStatus::How::exited, code}, stderr_tail});
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SshDiagnosis, SshErrorsBecomeReasonAndRemedy) {
  const std::string begin = "cannot start on host b (node 2): ";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"ssh: Could not resolve hostname b: Name or service not known\r\n",
       "there is no host with this name; check"},
      {"ssh: connect to host b port 22: Connection refused\r\n",
       "no ssh server listens there (connection refused); start sshd there"},
      {"ssh: connect to host b port 22: Connection timed out\r\n", "it does not answer (timed out); check"},
      {"ssh: connect to host b port 22: No route to host\r\n",
       "it cannot be reached (no route to host); check"},
      {"x@b: Permission denied (publickey).\r\n",
       "its ssh server refused the key; 'ssh x@b true' must work without a password: ssh-copy-id x@b"},
      {"No ED25519 host key is known for b and you have requested strict checking.\r\nHost key verification "
       "failed.\r\n",
       "its ssh host key is not known here; connect once by hand (ssh x@b)"},
      {"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\r\n",
       "its ssh host key is not the one known here; if the change is expected, remove the old key "
       "(ssh-keygen -R b)"},
      {"kex_exchange_identification: Connection closed by remote host\r\nConnection closed by b port 22\r\n",
       "its ssh server closed the connection at once"},
      {"Connection closed by b port 22\r\n", "its ssh server closed the connection"},
  };
  for (const auto& [stderr_tail, why] : cases)
    EXPECT_EQ(explained(stderr_tail).find(begin + why), 0U) << explained(stderr_tail);
}

TEST(SshDiagnosis, RemoteErrorOfDlaunchIsShown) {
  EXPECT_EQ(explained("stty: not a tty\ndlaunch: there is no dlaunch at /x; install it\n", 127),
            "cannot start on host b (node 2): there is no dlaunch at /x; install it");
  EXPECT_TRUE(
      is_usage_error({"b", "b", 2, "ssh", {ExitStatus::How::exited, 2}, "dlaunch: unknown option --x\n"}));
  EXPECT_FALSE(is_usage_error({"b", "b", 2, "ssh", {ExitStatus::How::exited, 1}, "dlaunch: no such file\n"}));
  EXPECT_FALSE(is_usage_error({"b", "b", 2, "ssh", {ExitStatus::How::exited, 2}, "sh: syntax error\n"}));
}

TEST(SshDiagnosis, TheRestIsQuoted) {
  EXPECT_TRUE(has(explained("a\nsomething \x1b[31mnew\x1b[0m\n\n"),
                  "ssh exited with code 255; its last line: something new"));
  EXPECT_TRUE(has(explained("", 1, "/opt/rsh"), "/opt/rsh exited with code 1, without any output"));
  // Only ssh itself ends with 255: a program there may print the same words about something else.
  EXPECT_TRUE(has(explained("sh: x: Permission denied\n", 126), "its last line: sh: x: Permission denied"));
  EXPECT_FALSE(has(explained(std::string(5000, 'x'), 1), std::string(600, 'x')));
}

}  // namespace
}  // namespace dlaunch::launcher
