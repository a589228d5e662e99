// A barrier through the store: each rank makes a statement, rank 0 compares the statements of all, and all
// ranks receive its decision.
//
// Why not through the backend: a missing rank must be named without harm to the group, but a backend's wait
// that times out breaks the group. It also works the same for every backend. Cost: two round trips to the
// store for each rank; only those of rank 0 grow with the group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// One group's barriers of one kind. Used by one thread at a time.
class StoreBarrier {
 public:
  // What happens to a rank that arrives after a round has ended without it.
  enum class Latecomers : std::uint8_t {
    get_the_decision,     // the n-th call on every rank is the same round
    wait_for_next_round,  // ranks that call meet, however often each has called before
  };

  // `store`: the keys of this barrier alone.
  StoreBarrier(std::shared_ptr<Store> store, int rank, int size, Latecomers latecomers)
      : store_(std::move(store)), rank_(rank), size_(size), latecomers_(latecomers) {}

  struct Options {
    std::string statement;  // this rank's
    Deadline deadline;
    // At rank 0: what is wrong with the statements, by rank; empty: nothing.
    std::function<std::string(const std::vector<std::string>& statements)> judge;
    // The text for ranks that did not arrive before the deadline.
    std::function<std::string(const std::vector<int>& missing)> name_missing;
    // Called repeatedly while waiting. What check() throws ends the round; departed() returns, in order, the
    // ranks that have left the group and will not arrive any more.
    std::function<void()> check;
    std::function<std::vector<int>()> departed;
  };

  struct Decision {
    std::vector<int> missing;  // the ranks that did not arrive
    std::string text;          // empty: no error

    [[nodiscard]] std::string encode() const;
    static Decision decode(const std::string& text);
  };
  // Returns the decision, the same for all ranks that arrived in time. It names a missing rank on every rank,
  // also if rank 0's deadline is a later one. Throws StoreError.
  Decision synchronize(const Options& options);

 private:
  enum class Wait : std::uint8_t { come, too_late, in_vain };

  [[nodiscard]] Wait await(std::span<const std::string> keys, const Options& options, Deadline deadline,
                           const std::function<bool()>& in_vain);
  void register_rank(const Options& options);
  Decision coordinate(const Options& options);
  [[nodiscard]] Decision judge(const Options& options);
  std::optional<Decision> receive_decision(const Options& options);
  Decision give_up(const Options& options);
  [[nodiscard]] bool has_ended();
  [[nodiscard]] std::vector<int> not_arrived();
  [[nodiscard]] std::vector<std::string> registration_keys() const;

  const std::shared_ptr<Store> store_;
  const int rank_;
  const int size_;
  const Latecomers latecomers_;
  std::uint64_t round_ = 0;         // the latest
  bool ended_ = true;               // the latest has, as far as this rank knows
  bool last_was_complete_ = false;  // the one before the latest, likewise
};

}  // namespace dlaunch::internal
