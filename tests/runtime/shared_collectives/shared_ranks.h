// Ranks as threads of one process that share memory as processes do.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/shared_collectives/shared_call.h"
#include "runtime/shared_memory/group_memory.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::test {

using namespace internal;

// Its ranks read each other's memory directly unless a test forbids it, whatever takes less time here.
inline std::shared_ptr<Segment> new_segment(int ranks) {
  setenv("DLAUNCH_SHM_DIRECT", "1", 1);
  std::string why;
  const int fd = Segment::make_file(static_cast<std::size_t>(ranks), why);
  if (fd < 0) throw std::runtime_error(why);
  std::shared_ptr<Segment> segment = Segment::map(fd, static_cast<std::size_t>(ranks), why);
  close(fd);
  if (!segment) throw std::runtime_error(why);
  return segment;
}

// What a transport knows of a group: whether it has ended.
class SharedRanks {
 public:
  explicit SharedRanks(int size) : segment_(new_segment(size)) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    for (int rank = 0; rank < size; ++rank) {
      memories_.push_back(
          std::make_unique<GroupMemory>(segment_, all, static_cast<std::size_t>(rank), [this](int) {
            if (const int lost = lost_; lost >= 0) throw DistNetworkError("it died", {.peer = lost});
          }));
      memories_.back()->set_on_mismatch(throw_other_call);
    }
  }

  void forbid_direct_reads() {
    for (const auto& memory : memories_) memory->forbid_direct_reads();
  }

  [[nodiscard]] int size() const { return static_cast<int>(memories_.size()); }
  [[nodiscard]] GroupMemory& memory(int rank) { return *memories_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::shared_ptr<Segment>& segment() const { return segment_; }

  // As a transport does when a connection ends.
  void lose(int rank) {
    lost_ = rank;
    for (const auto& memory : memories_) memory->interrupt();
  }

  // Runs `body` on a thread for each rank. Returns the exceptions of the bodies; null: none.
  std::vector<std::exception_ptr> run(const std::function<void(int rank, GroupMemory& memory)>& body) {
    return on_threads(size(), [&](int rank) { body(rank, memory(rank)); });
  }

 private:
  const std::shared_ptr<Segment> segment_;
  std::atomic<int> lost_ = -1;
  std::vector<std::unique_ptr<GroupMemory>> memories_;
};

}  // namespace dlaunch::test
