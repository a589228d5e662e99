#include "launcher/scheduler/pod_name.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <vector>

#include "store/base/text.h"

namespace dlaunch::launcher {

std::string full_name(const std::string& hosts_file, const std::string& host) {
  std::size_t at = 0;
  while (at < hosts_file.size()) {
    const std::size_t end = std::min(hosts_file.find('\n', at), hosts_file.size());
    std::vector<std::string> words;
    for (std::size_t i = at; i < end && hosts_file[i] != '#'; ++i) {
      const bool blank = std::isspace(static_cast<unsigned char>(hosts_file[i])) != 0;
      const bool begins = i == at || std::isspace(static_cast<unsigned char>(hosts_file[i - 1])) != 0;
      if (!blank && begins) words.emplace_back();
      if (!blank) words.back().push_back(hosts_file[i]);
    }
    if (words.size() > 1 && std::find(words.begin() + 1, words.end(), host) != words.end()) return words[1];
    at = end + 1;
  }
  return host;
}

bool names_pod(const std::string& name, const std::string& full_name) {
  const std::string own = lower(full_name);
  std::string asked = lower(name);
  if (asked.ends_with('.')) asked.pop_back();
  if (asked.find('.') == std::string::npos) return false;  // a host's name alone is in /etc/hosts
  return own == asked || own.starts_with(asked + ".");
}

}  // namespace dlaunch::launcher
