// This process as a worker: from init_rpc to shutdown.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlaunch/rpc.h"
#include "runtime/base/own_process.h"
#include "runtime/rpc/agent.h"
#include "runtime/rpc/known_workers.h"
#include "runtime/rpc/references.h"
#include "runtime/rpc/worker_set.h"

namespace dlaunch::internal {

// Any thread.
class RpcWorld {
 public:
  // The process's. Never destroyed.
  static RpcWorld& get();

  void init(const std::string& name, const rpc::RpcOptions& options);
  void shutdown(bool graceful, std::chrono::milliseconds timeout);

  struct Member {
    std::shared_ptr<Agent> agent;
    // One of both. The second: the workers come and go.
    std::shared_ptr<WorkerSet> workers;
    std::shared_ptr<KnownWorkers> known;
    std::map<std::string, std::uint32_t, std::less<>> ids;  // of `workers`, by name
    std::shared_ptr<References> references;
    std::chrono::milliseconds timeout;  // of calls

    // Throws DistError. Of workers that come and go, also one that has left.
    [[nodiscard]] const WorkerContact& worker(std::string_view name) const;
    [[nodiscard]] const WorkerContact& worker(int rank) const;
    // By its id, as references have it.
    [[nodiscard]] const WorkerContact& worker_with(std::uint32_t id) const;
    // The same without those.
    [[nodiscard]] const WorkerContact& present_worker(std::string_view name) const;
    [[nodiscard]] std::vector<WorkerContact> all() const;
    [[nodiscard]] const WorkerContact& destination(const rpc::Destination& to) const;
    [[nodiscard]] std::chrono::milliseconds timeout_of(rpc::Destination::Timeout given) const;
  };
  // Throws DistError outside init and shutdown. `operation`: for messages.
  [[nodiscard]] std::shared_ptr<const Member> member(const char* operation) const;

 private:
  std::shared_ptr<Member> join(const std::string& name, const rpc::RpcOptions& options);

  std::mutex making_;                       // init or shutdown runs
  std::map<std::string, int> generations_;  // how often this process has joined, by store; with making_ held
  mutable std::mutex mutex_;
  // protected by mutex_
  std::shared_ptr<Member> member_;
  OwnProcess process_;  // the one that has joined
};

}  // namespace dlaunch::internal
