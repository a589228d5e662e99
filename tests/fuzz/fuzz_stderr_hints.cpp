// libFuzzer: what workers and the kernel leave behind when a worker ends. Any input is parsed or rejected in
// bounded memory, and what users see of it is text.

#include <algorithm>
#include <string>

#include "agent/model/call_mismatch.h"
#include "agent/model/error_file.h"
#include "agent/observe/exit_remedy.h"
#include "agent/observe/memory_events.h"
#include "agent/observe/named_path.h"
#include "agent/observe/stderr_hints.h"
#include "agent/process/elf_machine.h"
#include "store/base/cgroup.h"
#include "store/base/sanitize.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::agent;

bool is_text(const std::string& text) { return sanitize_for_terminal(text, true) == text; }

void error_file(const std::string& text) {
  const auto file = parse_error_file(text);
  if (!file) {
    require(file.error().message().find('\n') == std::string::npos);
    return;
  }
  require(!file->message.empty() && file->message.size() <= 1000 &&
          file->message.find('\n') == std::string::npos);
  require(is_text(file->message) && is_text(file->traceback));
  require(file->unix_s >= 0 && since_exception(INT64_C(1) << 60, INT64_C(1) << 59, *file) >= Duration(0));
  const auto again = parse_error_file(to_error_file(*file, 3));
  require(again.ok() && *again == *file);
}

void kernel(const std::string& text) {
  for (const char* const controller : {"memory", "pids"}) {
    if (const auto cgroup = find_cgroup(text, controller)) require(cgroup->path.size() <= text.size());
  }
  (void)oom_kills(text);
  (void)memory_limit(text);
  (void)killed_for_memory(text, 12);
}

void last_lines(const std::string& text) {
  for (const int code : {127, 134}) {
    const std::string why = hint_from_output(text, {ExitStatus::How::exited, code, false});
    require(is_text(why) && why.size() <= 1000 && why.find('\n') == std::string::npos);
  }
  require(path_in_error(text, "No such file or directory").size() <= text.size());
  require(call_mismatch_line(text).size() <= 400);
  if (const auto mismatch = find_call_mismatch({text, text}))
    require(is_text(mismatch->text) && is_text(mismatch->remedy) && mismatch->text.size() <= 2000);
  ExitFacts facts;
  facts.host = "b";
  facts.command = {"python3"};
  facts.core_pattern = text;
  for (const int code : {1, 126, 127, 134}) {
    for (const bool dumped : {false, true}) {
      const std::string remedy = remedy_of_exit({ExitStatus::How::exited, code, dumped}, text, facts);
      require(is_text(remedy) && remedy.size() <= 500 && remedy.find('\n') == std::string::npos);
      facts.command = {"./train"};
    }
  }
}

void program(const std::string& text) {
  const std::string why = why_not_run(text, "x86_64");
  require(is_text(why) && why.empty() == !text.starts_with(elf_magic));
}

void console(const std::string& text) {
  for (const bool lines : {false, true}) {
    const std::string clean = sanitize_for_terminal(text, lines);
    require(clean.size() <= text.size() && is_text(clean));
    require(shortened(clean, 20).size() <= 20);
  }
}

void fuzz(FuzzInput input) {
  const unsigned kind = input.choice() % 4U;
  const std::string text(input.text());
  switch (kind) {
    case 0:
      error_file(text);
      break;
    case 1:
      kernel(text);
      break;
    case 2:
      last_lines(text);
      program(text);
      break;
    default:
      console(text);
  }
}

}  // namespace
