// Reads the workers' pages. Accesses only files; one thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "agent/model/worker_records.h"

namespace dlaunch::agent {

class WorkerPages final : public WorkerRecords {
 public:
  // `pages_dir` holds the pages; empty: there are none. `log_dir`: of this job, where keep() keeps them;
  // empty: it keeps none.
  explicit WorkerPages(std::string pages_dir, std::string log_dir = {})
      : pages_dir_(std::move(pages_dir)), log_dir_(std::move(log_dir)) {}

  void prepare(ProcKey key) override;
  Activity activity(std::uint32_t round, int slots) override;
  ExitRecord exit_record(ProcKey key, int world_size) override;
  void request_stack(std::uint32_t round, std::uint32_t local_rank, TimePoint now) override;
  std::vector<GroupProgress> group_progress(std::uint32_t round, std::span<const WorkerHere> workers,
                                            int world_size, TimePoint now) override;
  void keep(const JobStatus& status) override;

 private:
  // Empty: it was not requested, was returned before, or has not come.
  [[nodiscard]] std::string take_stack(std::uint32_t round, std::uint32_t local_rank);

  std::string pages_dir_;
  std::string log_dir_;
  std::map<std::uint32_t, TimePoint> stack_requests_;  // that have no stack yet, by local rank
  std::map<std::uint32_t, std::string> last_;          // the path of the last page, by local rank
};

// None: there is no such page, or nothing has been written to it.
std::optional<WorkerSeen> read_worker_page(const std::string& path);

}  // namespace dlaunch::agent
