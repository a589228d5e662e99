// Runs the operations of a group, several at once where nobody can tell the difference.
//
// Most of a short operation is waiting for other ranks; two at once wait together. Operations go to the lanes
// in turn, by their numbers, so that on all ranks the same ones meet on a lane; there they follow each other.
// One that shares memory with an earlier one waits for it, and their ends are reported in order: as if each
// had begun when the one before it was through.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace dlaunch {

// One call at a time. A lane's thread is started by its first post(); a program that only calls run() never
// has one, and pays no switch between threads. Functions must not throw or call back.
class Lanes {
 public:
  using Memory = std::vector<std::span<const std::byte>>;
  struct Operation {
    std::uint64_t number;          // follows that of the call before; the same on all ranks
    std::optional<Memory> memory;  // what it reads and writes; none: with nothing else at the same time
    std::function<void(int lane)> run;
    std::function<void()> report;  // that it has ended
  };

  explicit Lanes(int count);
  ~Lanes();  // runs what was posted, then ends the threads
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Runs it on this thread, when everything before it has been reported.
  void run(std::uint64_t number, const std::function<void(int lane)>& operation);

  // Returns at once.
  void post(Operation operation);

  // Returns when everything has been reported.
  void drain();

 private:
  struct Entry {
    Operation operation;
    int lane;
    bool done = false;
  };
  struct Lane {
    std::condition_variable changed;  // there may be something to do
    std::thread thread;
  };

  void work(int lane);
  Entry* next_for(int lane, bool& none_left);
  void report_ends(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] int lane_of(std::uint64_t number) const { return static_cast<int>(number % lanes_.size()); }

  std::mutex mutex_;
  std::condition_variable idle_;
  // protected by mutex_
  std::deque<Entry> entries_;  // not yet reported, in order; running ones stay where they are
  bool reporting_ = false;
  bool ending_ = false;
  std::vector<Lane> lanes_;
};

}  // namespace dlaunch
