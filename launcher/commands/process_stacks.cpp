#include "launcher/commands/process_stacks.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/observe/process_condition.h"
#include "launcher/commands/debugger_output.h"
#include "launcher/machine/program_output.h"
#include "store/base/number.h"
#include "store/base/process_stat.h"
#include "store/base/small_file.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t most_threads = 64;
constexpr std::size_t enough = 4096;
constexpr std::size_t most_output = 1 << 20;

// Empty: the file may not be read, or no longer exists.
std::string text_of(const std::string& path) {
  const auto file = read_plain_file(path, enough);
  if (!file) return "";
  std::string text = file->text;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::int64_t> numbers_in(const std::string& folder) {
  std::vector<std::int64_t> numbers;
  std::error_code failed;
  std::filesystem::directory_iterator entry(folder, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const auto number = parse_number<std::int64_t>(entry->path().filename().string());
    if (number) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Lines of "[<0>] do_wait+0x5c/0xf0".
std::vector<std::string> kernel_stack_of(const std::string& text) {
  std::vector<std::string> frames;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t bracket = line.find("] ");
    frames.push_back(bracket == std::string::npos ? line : line.substr(bracket + 2));
    at = end + 1;
  }
  return frames;
}

ThreadDump thread_of(const std::string& folder, std::int64_t tid) {
  ThreadDump thread;
  thread.tid = tid;
  thread.name = text_of(folder + "/comm");
  if (const auto stat = parse_process_stat(text_of(folder + "/stat"))) thread.state = stat->state;
  const std::string waits_in = text_of(folder + "/wchan");
  if (waits_in != "0") thread.waits_in = waits_in;
  const std::string call = text_of(folder + "/syscall");
  if (call != "running" && !call.starts_with("-1 ")) thread.system_call = call;
  thread.kernel_stack = kernel_stack_of(text_of(folder + "/stack"));
  return thread;
}

// A debugger that is killed while it attaches leaves the process stopped for good: it must go on.
class Attachment {
 public:
  Attachment(std::int64_t pid, TimePoint deadline)
      : pid_(pid), deadline_(deadline), was_stopped_(agent::condition_of(pid) == agent::Condition::stopped) {}
  ~Attachment() {
    const bool debugger_was_killed = steady_now() >= deadline_;
    if (debugger_was_killed && !was_stopped_) kill(static_cast<pid_t>(pid_), SIGCONT);
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

 private:
  const std::int64_t pid_;
  const TimePoint deadline_;
  const bool was_stopped_;
};

}  // namespace

bool is_python(std::int64_t pid) {
  char target[PATH_MAX];
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  const ssize_t size = readlink(link.c_str(), target, sizeof target);
  const std::string_view program(target, size < 0 ? 0 : static_cast<std::size_t>(size));
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

std::vector<ThreadDump> threads_of(std::int64_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::vector<std::int64_t> tids = numbers_in(folder);
  std::stable_partition(tids.begin(), tids.end(), [pid](std::int64_t tid) { return tid == pid; });
  if (tids.size() > most_threads) tids.resize(most_threads);
  std::vector<ThreadDump> threads;
  threads.reserve(tids.size());
  for (const std::int64_t tid : tids) threads.push_back(thread_of(folder + "/" + std::to_string(tid), tid));
  return threads;
}

DebuggerOutput run_debugger(std::int64_t pid, TimePoint deadline) {
  const std::string number = std::to_string(pid);
  const std::string py_spy = find_on_path("py-spy");
  const std::string gdb = find_on_path("gdb");
  const Debuggers installed{!gdb.empty(), !py_spy.empty()};
  const bool python = is_python(pid);
  const Attachment attachment(pid, deadline);
  if (python && installed.py_spy) {
    auto output = output_of({py_spy, "dump", "--pid", number}, deadline, most_output);
    std::string text = output ? std::move(*output) : output.error().message();
    std::string advice = advice_on_stacks(python, installed, text);
    return {"py-spy", std::move(text), std::move(advice)};
  }
  if (!installed.gdb) return {"", "", advice_on_stacks(python, installed, "")};
  // Without the user's settings, without downloads of debug information, and without long arguments.
  const std::vector<std::string> command{gdb,
                                         "-nx",
                                         "-batch",
                                         "-iex",
                                         "set debuginfod enabled off",
                                         "-iex",
                                         "set print frame-arguments none",
                                         "-p",
                                         number,
                                         "-ex",
                                         "thread apply all -ascending backtrace"};
  auto output = output_of(command, deadline, most_output);
  if (!output) return {"gdb", output.error().message(), ""};
  return {"gdb", stacks_in(*output), advice_on_stacks(python, installed, *output)};
}

}  // namespace dlaunch::launcher
