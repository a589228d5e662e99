#include "launcher/options/version_text.h"

namespace dlaunch::launcher {

std::string version_text(std::string_view version, std::string_view commit) {
  std::string text = "dlaunch " + std::string(version);
  if (!commit.empty()) text.append(" (commit ").append(commit).append(")");
  return text + "\n";
}

}  // namespace dlaunch::launcher
