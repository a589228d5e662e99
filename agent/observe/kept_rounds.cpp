#include "agent/observe/kept_rounds.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "agent/model/worker_record.h"
#include "agent/observe/plain_file.h"
#include "store/base/small_file.h"

namespace dlaunch::agent {
namespace {

constexpr const char* status_file = "node.json";
constexpr std::size_t most_bytes = std::size_t{64} << 20U;  // of a node's status
constexpr std::size_t most_rounds = 10'000;
constexpr std::uint32_t kept = 16;  // rounds of a job: a page has some hundred KB
constexpr int deepest = 4;          // node.json below --log-dir

std::filesystem::path folder_of(const JobStatus& status, const std::string& log_dir) {
  return std::filesystem::path(log_dir) / ("attempt_" + std::to_string(status.round)) / "records";
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code failed;
  if (!file) std::filesystem::remove(path, failed);  // half of it would only mislead
}

std::optional<JobStatus> read_round(const std::filesystem::path& path) {
  const auto file = read_plain_file(path, most_bytes);
  if (!file) return std::nullopt;
  auto status = status_from_json(file->text);
  if (!status) return std::nullopt;
  status->pages_dir = path.parent_path();
  status->state = "ended";
  for (WorkerStatus& worker : status->workers) worker.state = "ended";
  return std::move(*status);
}

Error unusable(const std::string& directory, const std::string& why) {
  return {
      ErrorKind::not_found, directory + " has " + why, "", "",
      "only a round that did not succeed leaves records, in the log directory of a job with --log-dir and "
      "--redirects or --tee"};
}

}  // namespace

void keep_round(JobStatus status, const std::string& pages_dir, const std::string& log_dir) {
  const std::filesystem::path folder = folder_of(status, log_dir);
  const auto round = static_cast<std::uint32_t>(status.round);
  std::error_code failed;
  bool has_page = false;
  for (const WorkerStatus& worker : status.workers) {
    const auto local_rank = static_cast<std::uint32_t>(worker.local_rank);
    const PlainFile page(worker_page_path(pages_dir, round, local_rank), O_NOFOLLOW);
    const std::string bytes = page.read(0, sizeof(page::Page));
    if (!parse_page_head(as_byte_span(bytes).first(std::min(bytes.size(), sizeof(page::Header))))) continue;
    if (!std::exchange(has_page, true)) std::filesystem::create_directories(folder, failed);
    write(worker_page_path(folder, round, local_rank), bytes);
  }
  if (!has_page) return;
  status.agent = getpid();
  status.log_dir = log_dir;
  status.pages_dir = folder;
  write(folder / status_file, to_json(status) + "\n");
  if (round < kept) return;
  status.round -= static_cast<int>(kept);
  std::filesystem::remove_all(folder_of(status, log_dir), failed);
}

Result<std::vector<JobStatus>> kept_rounds(const std::string& directory) {
  std::vector<JobStatus> rounds;
  std::error_code failed;
  std::filesystem::recursive_directory_iterator at(
      directory, std::filesystem::directory_options::skip_permission_denied, failed);
  for (; !failed && at != std::filesystem::recursive_directory_iterator(); at.increment(failed)) {
    if (at.depth() >= deepest) at.disable_recursion_pending();
    if (at->path().filename() != status_file) continue;
    auto round = read_round(at->path());
    if (!round) continue;
    if (rounds.size() == most_rounds)
      return unusable(directory, "too many rounds: name the directory of one job");
    rounds.push_back(std::move(*round));
  }
  if (rounds.empty()) return unusable(directory, "no records of a round");
  std::ranges::stable_sort(rounds, {}, [](const JobStatus& r) { return std::pair(r.round, r.node_rank); });
  return rounds;
}

}  // namespace dlaunch::agent
