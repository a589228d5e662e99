#include "runtime/api/spawn_message.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "dlaunch/codec.h"
#include "dlaunch/error.h"
#include "dlaunch/spawn.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

template <class Archive>
void serialize(Archive& archive, SpawnOrder& order) {
  archive(order.rank, order.size, order.parent, order.file);
}
template <class Archive>
void serialize(Archive& archive, SpawnMessage& message) {
  archive(message.order, message.function, message.arguments);
}

namespace {

struct Functions {
  std::mutex mutex;
  std::map<std::string, SpawnFunction> by_name;
};
Functions& functions() {
  static Functions& only = *new Functions;
  return only;
}

std::optional<SpawnFunction> function_named(const std::string& name) {
  const std::lock_guard lock(functions().mutex);
  const auto found = functions().by_name.find(name);
  if (found == functions().by_name.end()) return std::nullopt;
  return found->second;
}

struct Descriptors {
  int message = -1;
  int report = -1;
};

std::optional<Descriptors> descriptors_in(std::string_view text) {
  Descriptors found;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, found.message);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ',') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, found.report);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  return found;
}

std::string all_of_file(int fd) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t length = pread(fd, part, sizeof part, static_cast<off_t>(text.size()));
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return text;
    text.append(part, static_cast<std::size_t>(length));
  }
}

}  // namespace

int spawn_message(const SpawnMessage& message) {
  const std::string bytes = to_bytes(message);
  const int fd = memfd_create("dlaunch_spawn", MFD_CLOEXEC);
  if (fd < 0) throw DistError(std::string("spawn: no file in memory: ") + std::strerror(errno));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t length = write(fd, bytes.data() + done, bytes.size() - done);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) {
      const std::string reason = std::strerror(errno);
      close(fd);
      throw DistError("spawn: the arguments cannot be written: " + reason);
    }
    done += static_cast<std::size_t>(length);
  }
  return fd;
}

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.empty()) words.emplace_back(program_invocation_name);
  return words;
}

std::vector<std::string> own_environment() {
  const std::string given = std::string(spawn_variable) + "=";
  std::vector<std::string> variables;
  for (char** variable = environ; variable && *variable; ++variable) {
    if (!std::string_view(*variable).starts_with(given)) variables.emplace_back(*variable);
  }
  return variables;
}

}  // namespace dlaunch::internal

namespace dlaunch {
using namespace internal;
inline namespace v1 {

void register_spawn_function(const std::string& name, SpawnFunction function) {
  if (!function) throw DistError("register_spawn_function: '" + name + "' is not a function");
  const std::lock_guard lock(functions().mutex);
  if (!functions().by_name.emplace(name, std::move(function)).second) {
    throw DistError("register_spawn_function: there is a function '" + name + "' already");
  }
}

void run_if_spawned() {
  const std::optional<std::string> text = process_environment(spawn_variable);
  if (!text) return;
  unsetenv(std::string(spawn_variable).c_str());  // programs that this one starts are not ranks
  const std::optional<Descriptors> given = descriptors_in(*text);
  if (!given) {
    throw DistError("run_if_spawned: the environment variable " + std::string(spawn_variable) + ": '" +
                    *text + "' is not what spawn sets");
  }
  const auto message = from_bytes<SpawnMessage>(all_of_file(given->message));
  close(given->message);
  fcntl(given->report, F_SETFD, FD_CLOEXEC);
  (void)!write(given->report, spawn_begun.data(), spawn_begun.size());
  prctl(PR_SET_NAME, program_invocation_short_name);  // which exec has made "exe"
  const int code = run_as_rank(message.order, given->report, [&](int rank) {
    const std::optional<SpawnFunction> function = function_named(message.function);
    if (!function) {
      throw DistError("no function '" + message.function +
                      "' is registered in the new process; register_spawn_function() has to be called "
                      "before run_if_spawned()");
    }
    (*function)(rank, message.arguments);
  });
  std::exit(code);
}

}  // namespace v1
}  // namespace dlaunch
