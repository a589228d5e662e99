#include "launcher/doctor/finding.h"

#include <algorithm>

namespace dlaunch::launcher {

const char* name_of(Finding::Grade grade) {
  switch (grade) {
    case Finding::Grade::ok:
      return "ok";
    case Finding::Grade::note:
      return "note";
    case Finding::Grade::bad:
      break;
  }
  return "BAD";
}

std::string describe(const Findings& findings) {
  constexpr std::size_t width = 6;
  std::string text;
  for (const Finding& finding : findings) {
    std::string mark = name_of(finding.grade);
    mark.resize(width, ' ');
    text += mark + finding.text + (finding.to_do.empty() ? "" : ": " + finding.to_do) + "\n";
  }
  return text;
}

bool any_is_bad(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& one) { return one.grade == Finding::Grade::bad; });
}

}  // namespace dlaunch::launcher
