// Agents of several workers in one process, over real connections.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/rpc/agent.h"

namespace dlaunch::test {

using namespace internal;

// No test waits longer.
constexpr auto rpc_limit = std::chrono::seconds(30);

// The outcome of one call.
class Outcome final : public CallReceiver {
 public:
  void finish(CallOutcome outcome) override {
    const std::lock_guard lock(mutex_);
    outcomes_.push_back(std::move(outcome));
    changed_.notify_all();
  }
  // "= result", "! failure", "? why there is no answer"
  std::string text() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, rpc_limit, [&] { return !outcomes_.empty(); })) return "nothing";
    if (const auto* const result = std::get_if<codec::Bytes>(&outcomes_[0])) return "= " + result->front;
    if (const auto* const failure = std::get_if<CallFailure>(&outcomes_[0])) return "! " + failure->text;
    return "? " + std::get<NoAnswer>(outcomes_[0]).text;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return outcomes_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CallOutcome> outcomes_;
};

// Opens once; many wait.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, rpc_limit, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

// How workers are connected: through memory that two of them share, or by sockets.
enum class Way : std::uint8_t { memory, unix_socket, tcp };

class Agents {
 public:
  using Serve = std::function<void(IncomingCall call)>;

  // `serve` runs the calls of all.
  Agents(int count, Way way, const Serve& serve, int threads = 2, int connections = 4) {
    std::vector<WorkerContact> workers;
    for (int i = 0; i < count; ++i) {
      all_.push_back(Agent::make({.name = "w" + std::to_string(i),
                                  .id = static_cast<std::uint32_t>(i),
                                  .rank = static_cast<std::uint32_t>(i),
                                  .host = "h",
                                  .address = "127.0.0.1",
                                  .threads = threads,
                                  .on_host = way != Way::tcp,
                                  .in_memory = way == Way::memory,
                                  .connections = connections}));
      workers.push_back(all_.back()->self());
    }
    for (const auto& agent : all_) agent->start(workers, serve);
  }
  ~Agents() {
    for (const auto& agent : all_) EXPECT_TRUE(agent->end("ended", deadline_after(rpc_limit)));
  }
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  Agent& operator[](std::size_t i) { return *all_[i]; }
  const std::shared_ptr<Agent>& shared(std::size_t i) { return all_[i]; }

  std::shared_ptr<Outcome> call(std::size_t from, std::uint32_t to, const std::string& body,
                                std::chrono::milliseconds timeout = {}) {
    auto outcome = std::make_shared<Outcome>();
    all_[from]->call(to, "echo", body, timeout, outcome);
    return outcome;
  }

 private:
  std::vector<std::shared_ptr<Agent>> all_;
};

}  // namespace dlaunch::test
