#include "agent/observe/worker_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "agent/observe/crash_report.h"
#include "agent/observe/kept_rounds.h"
#include "agent/observe/plain_file.h"
#include "agent/observe/process_condition.h"
#include "agent/observe/tcp_links.h"

namespace dlaunch::agent {
namespace {

// A link in the place of a page would be another program's.
PlainFile page_file(const std::string& path) { return PlainFile(path, O_NOFOLLOW); }

WorkerSeen without_page(const WorkerHere& worker, int world_size) {
  WorkerSeen seen;
  seen.record.pid = worker.pid;
  seen.record.rank = worker.rank;
  seen.record.world_size = world_size;
  seen.condition = condition_of(worker.pid);
  seen.state = state_of(worker.pid);
  return seen;
}

StalledLink stalled_link(const WorkerRecord& record, const std::map<std::uint64_t, LinkState>& links) {
  std::vector<LinkState> own;
  for (const page::Link& link : record.links) {
    const auto found = links.find(link.inode);
    if (found == links.end()) continue;
    own.push_back(found->second);
    own.back().peer = link.rank;
  }
  return worst_link(own);
}

}  // namespace

void WorkerPages::prepare(ProcKey key) {
  if (pages_dir_.empty()) return;
  std::string& path = last_[key.local_rank];
  if (!path.empty()) unlink(path.c_str());
  stack_requests_.erase(key.local_rank);
  path = worker_page_path(pages_dir_, key.round, key.local_rank);
}

Activity WorkerPages::activity(std::uint32_t round, int slots) {
  Activity sum;
  for (int i = 0; i < slots && !pages_dir_.empty(); ++i) {
    const PlainFile file = page_file(worker_page_path(pages_dir_, round, static_cast<std::uint32_t>(i)));
    const std::string header = file.read(0, sizeof(page::Header));
    const auto one = parse_page_head(as_byte_span(header));
    if (!one) continue;
    ++sum.pages;
    sum.moves += one->activity.moves;
    sum.asks += one->activity.asks;
    // A worker that has ended no longer waits.
    const bool waits = one->activity.open > 0 || one->activity.minor > 0;
    if (!waits || condition_of(one->pid) == Condition::ended) continue;
    sum.open += one->activity.open;
    sum.minor += one->activity.minor;
  }
  return sum;
}

ExitRecord WorkerPages::exit_record(ProcKey key, int world_size) {
  if (pages_dir_.empty()) return {};
  const auto seen = read_worker_page(worker_page_path(pages_dir_, key.round, key.local_rank));
  if (!seen || seen->record.world_size != world_size) return {};
  const WorkerRecord& record = seen->record;
  return {record.lost.rank, describe_loss(record), record.left_in_exception};
}

void WorkerPages::request_stack(std::uint32_t round, std::uint32_t local_rank, TimePoint now) {
  if (pages_dir_.empty()) return;
  stack_requests_[local_rank] = now;
  agent::request_stack(worker_page_path(pages_dir_, round, local_rank));
}

std::string WorkerPages::take_stack(std::uint32_t round, std::uint32_t local_rank) {
  const auto request = stack_requests_.find(local_rank);
  if (request == stack_requests_.end()) return "";
  const auto stack = read_stack(worker_page_path(pages_dir_, round, local_rank), request->second);
  if (!stack) return "";
  stack_requests_.erase(request);
  return stack_of(*stack);
}

std::vector<GroupProgress> WorkerPages::group_progress(std::uint32_t round,
                                                       std::span<const WorkerHere> workers, int world_size,
                                                       TimePoint now) {
  std::vector<WorkerSeen> all;
  const auto links = pages_dir_.empty() ? std::map<std::uint64_t, LinkState>() : waiting_tcp_links();
  for (const WorkerHere& worker : workers) {
    if (pages_dir_.empty() || worker.pid == 0) continue;
    auto seen = read_worker_page(worker_page_path(pages_dir_, round, worker.local_rank));
    if (seen) seen->stack = take_stack(round, worker.local_rank);
    if (seen) seen->link = stalled_link(seen->record, links);
    all.push_back(seen ? std::move(*seen) : without_page(worker, world_size));
  }
  return collect_group_progress(all, world_size, now.time_since_epoch().count());
}

void WorkerPages::keep(const JobStatus& status) {
  if (!pages_dir_.empty() && !log_dir_.empty()) keep_round(status, pages_dir_, log_dir_);
}

std::optional<WorkerSeen> read_worker_page(const std::string& path) {
  const PlainFile file = page_file(path);
  if (!parse_page_head(as_byte_span(file.read(0, sizeof(page::Header)))))
    return std::nullopt;  // most are empty
  const std::string first = file.read(0, sizeof(page::Page));
  const std::string second = file.read(0, sizeof(page::Page));
  auto record = parse_worker_page(as_byte_span(first), as_byte_span(second));
  if (!record) return std::nullopt;
  const Condition condition = condition_of(record->pid);
  std::string state = state_of(record->pid);
  return WorkerSeen{std::move(*record), condition, std::move(state)};
}

}  // namespace dlaunch::agent
