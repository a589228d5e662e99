#include "launcher/remote/ssh_diagnosis.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

constexpr std::string_view own_words = "dlaunch: ";
constexpr std::size_t longest_why = 500;

struct Known {
  std::string_view words;  // OpenSSH's, in small letters
  std::string_view why;
  std::string_view hint;  // HOST is replaced by the host, LOGIN by ssh's argument
};

// The first match counts, so specific messages come before those that often accompany them.
constexpr std::array known{
    Known{"could not resolve hostname", "there is no host with this name",
          "check its spelling, and DNS or /etc/hosts on this machine"},
    Known{"remote host identification has changed", "its ssh host key is not the one known here",
          "if the change is expected, remove the old key (ssh-keygen -R HOST) and connect once by hand (ssh "
          "LOGIN)"},
    Known{"host key verification failed", "its ssh host key is not known here",
          "connect once by hand (ssh LOGIN), or add it with ssh-keyscan to ~/.ssh/known_hosts"},
    Known{"too many authentication failures", "its ssh server refused all keys that were offered",
          "name the right one: --ssh='ssh -o IdentitiesOnly=yes -i KEY'"},
    Known{"permission denied", "its ssh server refused the key",
          "'ssh LOGIN true' must work without a password: ssh-copy-id LOGIN, or --ssh='ssh -i KEY'"},
    Known{"connection refused", "no ssh server listens there (connection refused)",
          "start sshd there, or name its port: --ssh='ssh -p PORT'"},
    Known{"no route to host", "it cannot be reached (no route to host)",
          "check that it is up, and the network and firewall in between"},
    Known{"network is unreachable", "it cannot be reached (network is unreachable)",
          "check this machine's network"},
    Known{"timed out", "it does not answer (timed out)",
          "check that it is up, and the network and firewall in between"},
    Known{"not responding", "it does not answer any more", "check that it is up, and the network in between"},
    Known{"kex_exchange_identification", "its ssh server closed the connection at once",
          "see its log; it may limit the number of connections (MaxStartups)"},
    Known{"connection reset", "its ssh server closed the connection", "see its log"},
    Known{"connection closed", "its ssh server closed the connection", "see its log"},
    Known{"no matching", "its ssh server and this ssh have no method in common",
          "compare what both support: ssh -v LOGIN"},
    Known{"bad configuration option", "ssh rejects an option", "check --ssh and ~/.ssh/config"},
    Known{"identity file", "ssh does not find its key file", "check --ssh"},
};

std::string replaced(std::string text, std::string_view word, const std::string& by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

std::string last_line(const std::string& stderr_tail) {
  const std::string text = sanitize_for_terminal(stderr_tail, true);
  const std::size_t end = text.find_last_not_of(" \t\n");
  if (end == std::string::npos) return "";
  const std::size_t before = text.find_last_of('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return shortened(text.substr(begin, end + 1 - begin), longest_why);
}

bool is_ssh(const StartFailure& failure) {
  return failure.program.substr(failure.program.rfind('/') + 1) == "ssh";
}

}  // namespace

std::string why_not_started(const StartFailure& failure) {
  const std::string last = last_line(failure.stderr_tail);
  if (last.starts_with(own_words)) return last.substr(own_words.size());
  constexpr int ssh_failed = 255;
  if (is_ssh(failure) && failure.status == agent::ExitStatus{agent::ExitStatus::How::exited, ssh_failed}) {
    const std::string all = lower(failure.stderr_tail);
    const auto* found = std::find_if(known.begin(), known.end(), [&](const Known& one) {
      return all.find(one.words) != std::string::npos;
    });
    if (found != known.end())
      return std::string(found->why) + "; " +
             replaced(replaced(std::string(found->hint), "HOST", failure.host), "LOGIN", failure.login);
  }
  return failure.program + " " + agent::describe(failure.status) +
         (last.empty() ? ", without any output" : "; its last line: " + last);
}

bool has_answered(const StartFailure& failure) {
  return last_line(failure.stderr_tail).starts_with(own_words);
}

std::string explain(const StartFailure& failure) {
  return "cannot start on host " + failure.host + " (node " + std::to_string(failure.node_rank) +
         "): " + why_not_started(failure);
}

bool is_usage_error(const StartFailure& failure) {
  constexpr int exit_usage = 2;
  return has_answered(failure) &&
         failure.status == agent::ExitStatus{agent::ExitStatus::How::exited, exit_usage};
}

}  // namespace dlaunch::launcher
