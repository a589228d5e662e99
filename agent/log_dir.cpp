#include "agent/log_dir.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace dlaunch::agent {
namespace {

constexpr const char* no_files = "/dev/null";

std::string file_name_of(std::string id) {
  std::replace_if(
      id.begin(), id.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'; }, '_');
  return id.substr(0, 100);
}

}  // namespace

bool wants_log_files(const LogOptions& options) {
  if (options.dir == no_files) return false;
  return options.redirects.any() || options.tee.any() || !options.duplicate_stdout_filters.empty() ||
         !options.duplicate_stderr_filters.empty();
}

Result<std::string> make_log_dir(const LogOptions& options, const std::string& job_id,
                                 const std::string& temporary) {
  const std::string& parent = options.dir.empty() ? temporary : options.dir;
  const auto failure = [&](const std::string& why) {
    return Error{ErrorKind::io, "cannot make a log directory in", parent, why, "choose another --log-dir"};
  };
  std::error_code failed;
  std::filesystem::create_directories(parent, failed);
  if (failed) return failure(failed.message());
  std::string name =
      parent + "/" + (options.dir.empty() ? "dlaunch_" : "") + file_name_of(job_id) + "_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return failure(std::strerror(errno));
  std::filesystem::permissions(name, std::filesystem::perms{0755},
                               failed);  // for others to read, as torchrun's
  if (options.dir.empty()) return name;

  // Made aside and renamed, so that it always points somewhere. Two jobs at once: the later one has it.
  const std::string link = parent + "/latest";
  const std::string aside = name + ".link";
  std::filesystem::create_directory_symlink(std::filesystem::path(name).filename(), aside, failed);
  if (!failed) std::filesystem::rename(aside, link, failed);
  if (failed) std::filesystem::remove(aside, failed);  // only a help; the files are what matters
  return name;
}

std::string worker_log_dir(const std::string& job_dir, std::uint32_t round, std::uint32_t local_rank) {
  return job_dir + "/attempt_" + std::to_string(round) + "/" + std::to_string(local_rank);
}

}  // namespace dlaunch::agent
