#include "agent/output/rank_links.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

#include "agent/output/log_dir.h"
#include "store/base/number.h"

namespace dlaunch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = "rank_";
constexpr std::string_view newest = "latest";

std::string in_hex(std::uint64_t number) {
  char digits[16];
  const auto [end, failure] = std::to_chars(digits, digits + sizeof digits, number, 16);
  return {digits, end};
}

// A name that this class makes. Anything else in such a folder is left alone.
bool is_folder_name(const std::string& name, const std::string& round) {
  return name.starts_with("." + round + "_") && name.find('/') == std::string::npos;
}

// Empty: there is no such link.
std::string target_of(const fs::path& link) {
  std::error_code failed;
  const fs::path target = fs::read_symlink(link, failed);
  return failed ? "" : target.string();
}

}  // namespace

RankLinks::RankLinks(const fs::path& job_dir, bool in_temporary, Warn warn)
    : dir_(ranks_dir(job_dir, in_temporary)),
      aside_("." + job_dir.filename().string()),
      warn_(std::move(warn)) {}

void RankLinks::add(std::uint32_t round, std::uint64_t leader, int rank, std::string_view stream,
                    const fs::path& file) {
  if (failed_) return;
  try {
    open_round(round, leader);
    link(file.lexically_relative(folder_),
         folder_ / (std::string(mark) + std::to_string(rank) + "." + std::string(stream)));
  } catch (const fs::filesystem_error& error) {
    failed_ = true;
    warn_("cannot make links by rank to the log files in " + dir_.string() + ": " + error.code().message() +
          "; the log files themselves are written");
  }
}

void RankLinks::open_round(std::uint32_t round, std::uint64_t leader) {
  const std::string number = std::to_string(round);
  const std::string suffix = "_" + in_hex(leader);
  const std::string name = "." + number + suffix;
  if (folder_ == dir_ / name) return;
  fs::create_directories(dir_ / name);
  folder_ = dir_ / name;
  const std::string before = target_of(dir_ / number);
  if (before == name) return;  // another agent of this world came first
  link(name, dir_ / number);
  link(number, dir_ / newest);
  std::error_code ignored;  // another agent may do the same now
  if (is_folder_name(before, number)) fs::remove_all(dir_ / before, ignored);
  remove_later_rounds(round, suffix);
}

// Later rounds belong to an older job of this id that had more rounds, because rounds only grow.
void RankLinks::remove_later_rounds(std::uint32_t round, const std::string& suffix) {
  std::error_code ignored;
  std::vector<std::string> later;
  for (const auto& entry : fs::directory_iterator(dir_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (parse_number<std::uint32_t>(name).value_or(0) > round) later.push_back(name);
  }
  for (const std::string& number : later) {
    const std::string folder = target_of(dir_ / number);
    if (!is_folder_name(folder, number) || folder.ends_with(suffix)) continue;
    fs::remove(dir_ / number, ignored);
    fs::remove_all(dir_ / folder, ignored);
  }
}

// Made under another name and renamed, so that a reader finds either the old or the new link.
void RankLinks::link(const fs::path& target, const fs::path& place) const {
  const fs::path aside = place.string() + aside_;
  std::error_code ignored;
  fs::remove(aside, ignored);
  fs::create_symlink(target, aside);
  fs::rename(aside, place);
}

fs::path ranks_dir(const fs::path& job_dir, bool in_temporary) {
  return in_temporary ? job_dir / "ranks"
                      : job_dir.parent_path() / shared_name_of(job_dir.filename().string());
}

int rank_of_link(std::string_view name, std::string_view stream) {
  if (!name.starts_with(mark) || !name.ends_with("." + std::string(stream))) return -1;
  name.remove_prefix(mark.size());
  name.remove_suffix(stream.size() + 1);
  return std::max(-1, parse_number<int>(name).value_or(-1));
}

}  // namespace dlaunch::agent
