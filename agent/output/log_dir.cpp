#include "agent/output/log_dir.h"

#include <sys/stat.h>
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

constexpr std::string_view temporary_mark = "dlaunch_";
constexpr std::string_view latest = "latest";
constexpr std::string_view random_part = "_XXXXXX";  // as mkdtemp() wants it

std::string file_name_of(std::string id) {
  std::replace_if(
      id.begin(), id.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'; }, '_');
  return id.substr(0, 100);
}

Error no_place(const std::string& parent, const std::string& why) {
  return Error{ErrorKind::io, "cannot make a log directory in", parent, why, "choose another --log-dir"};
}

}  // namespace

Result<void> check_log_dir(const LogOptions& options) {
  if (options.dir.empty() || options.dir == no_log_files) return {};
  struct stat info {};
  const bool found = stat(options.dir.c_str(), &info) == 0;
  const bool bad = found ? !S_ISDIR(info.st_mode) : errno == ENOTDIR;
  if (bad) return no_place(options.dir, std::strerror(ENOTDIR));
  return {};
}

Result<std::string> make_log_dir(const LogOptions& options, const std::string& job_id,
                                 const std::string& temporary) {
  std::error_code failed;
  const std::string given = options.dir.empty() ? temporary : options.dir;
  const std::filesystem::path absolute = std::filesystem::absolute(given, failed);
  const std::string parent = failed ? given : absolute.lexically_normal().string();
  std::filesystem::create_directories(parent, failed);
  if (failed) return no_place(parent, failed.message());
  std::string name =
      std::filesystem::path(parent) / std::string(options.dir.empty() ? temporary_mark : std::string_view())
                                          .append(file_name_of(job_id))
                                          .append(random_part);
  if (mkdtemp(name.data()) == nullptr) return no_place(parent, std::strerror(errno));
  // In the temporary directory, which all users share, only this user may read the workers' output. For a
  // named directory its own permissions and the umask decide.
  if (options.dir.empty()) return name;
  const mode_t mask = umask(0);
  umask(mask);
  chmod(name.c_str(), 0777 & ~mask);

  // Made under another name and renamed, so that it always points to a directory. Of two jobs that start at
  // once, it points to the later one.
  const std::string link = std::filesystem::path(parent) / latest;
  const std::string aside = name + ".link";
  std::filesystem::create_directory_symlink(std::filesystem::path(name).filename(), aside, failed);
  if (!failed) std::filesystem::rename(aside, link, failed);
  if (failed) std::filesystem::remove(aside, failed);  // the job works without the link
  return name;
}

bool is_log_dir_of(std::string_view name, const std::string& job_id, bool in_temporary) {
  if (in_temporary && !name.starts_with(temporary_mark)) return false;
  if (in_temporary) name.remove_prefix(temporary_mark.size());
  if (name.size() <= random_part.size()) return false;
  const std::string_view id = name.substr(0, name.size() - random_part.size());
  return name[id.size()] == '_' && (job_id.empty() || id == file_name_of(job_id));
}

std::string shared_name_of(std::string_view job_dir_name) {
  const std::size_t behind_id = job_dir_name.size() - std::min(job_dir_name.size(), random_part.size());
  std::string id(job_dir_name.substr(0, behind_id));
  const bool is_taken = id.empty() || id == "." || id == ".." || id == latest;
  return is_taken ? id + "_" : id;
}

std::string worker_log_dir(const std::string& job_dir, std::uint32_t round, std::uint32_t local_rank) {
  return job_dir + "/attempt_" + std::to_string(round) + "/" + std::to_string(local_rank);
}

}  // namespace dlaunch::agent
