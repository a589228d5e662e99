#include "launcher/doctor/debugging.h"

#include <gtest/gtest.h>

#include <limits>

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

DebuggingFacts all_is_there() {
  return {"/usr/bin/gdb", "/usr/bin/py-spy", 0, false, unlimited, unlimited, "/var/core/%p", "/work"};
}

bool has(const Finding& finding, const std::string& part) {
  return (finding.text + ": " + finding.to_do).find(part) != std::string::npos;
}

TEST(Debugging, AllIsThere) {
  const Findings findings = check_debugging(all_is_there());
  ASSERT_EQ(findings.size(), 3U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.grade, Grade::ok) << finding.text;
    EXPECT_EQ(finding.to_do, "");
  }
  EXPECT_EQ(findings[2].text, "core dumps are written to /var/core/%p");
}

TEST(Debugging, NamesTheDebuggerThatIsMissing) {
  DebuggingFacts facts = all_is_there();
  facts.py_spy.clear();
  EXPECT_TRUE(has(check_debugging(facts)[0],
                  "py-spy is not: stacks of Python programs show the interpreter: pip install py-spy"));
  facts.gdb.clear();
  EXPECT_TRUE(has(check_debugging(facts)[0], "neither gdb nor py-spy is installed"));
  facts.py_spy = "/usr/bin/py-spy";
  EXPECT_TRUE(has(check_debugging(facts)[0], "gdb is not: only Python programs"));
  EXPECT_EQ(check_debugging(facts)[0].grade, Grade::note);
}

TEST(Debugging, WhoMayAttach) {
  DebuggingFacts facts = all_is_there();
  facts.ptrace_scope = 1;
  EXPECT_EQ(check_debugging(facts)[1].grade, Grade::note);
  EXPECT_TRUE(has(check_debugging(facts)[1], "sysctl kernel.yama.ptrace_scope=0"));
  facts.may_trace_all = true;
  EXPECT_EQ(check_debugging(facts)[1].grade, Grade::ok);
  facts.ptrace_scope = 3;  // not even root
  EXPECT_EQ(check_debugging(facts)[1].grade, Grade::note);
  EXPECT_TRUE(has(check_debugging(facts)[1], "restart the machine"));
  facts.ptrace_scope.reset();
  EXPECT_EQ(check_debugging(facts)[1].grade, Grade::ok);
}

TEST(Debugging, WhetherThereWillBeACoreDump) {
  DebuggingFacts facts = all_is_there();
  facts.core_soft = 0;
  EXPECT_EQ(check_debugging(facts)[2].grade, Grade::note);
  EXPECT_TRUE(has(check_debugging(facts)[2], "ulimit -c unlimited before dlaunch"));
  facts.core_hard = 0;
  EXPECT_TRUE(has(check_debugging(facts)[2], "raise the hard limit"));
  facts.core_pattern = "|/usr/lib/systemd/systemd-coredump %P";
  EXPECT_EQ(check_debugging(facts)[2].text, "core dumps are written by /usr/lib/systemd/systemd-coredump");
  facts.core_pattern = "core";
  facts.core_soft = 5ULL << 20U;
  EXPECT_EQ(check_debugging(facts)[2].text,
            "core dumps are written to core in the worker's directory (now /work), cut at 5 MiB");
  facts.core_pattern.clear();
  EXPECT_TRUE(has(check_debugging(facts)[2], "sysctl kernel.core_pattern=core.%p"));
}

}  // namespace
}  // namespace dlaunch::launcher
