// What a check has found: whether it matters to jobs, and what to do about it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlaunch::launcher {

struct Finding {
  enum class Grade : std::uint8_t { ok, note, bad };
  Grade grade = Grade::ok;
  std::string text;   // "host name a: resolves to 10.0.0.1"
  std::string to_do;  // empty if it is ok

  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

// "ok", "note" or "BAD".
const char* name_of(Finding::Grade grade);

// One line each: the grade, what was found, what to do.
std::string describe(const Findings& findings);

bool any_is_bad(const Findings& findings);

}  // namespace dlaunch::launcher
