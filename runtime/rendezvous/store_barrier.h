// The ranks of a group meet through the store: each says something, the first rank looks at what all have
// said, and all hear its verdict.
//
// Why not through the backend: a rank that does not come must be named without harm to the group, and a wait
// on the backend that ends too early breaks it. It also works for every backend alike. Cost: two round trips
// to the store for each rank, none of them growing with the group but those of the first rank.
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

namespace dlaunch {

// One kind of meetings of one group. Used by one thread at a time.
class StoreBarrier {
 public:
  // What becomes of a rank that comes when a meeting has ended without it.
  enum class Latecomers : std::uint8_t {
    get_the_decision,     // the n-th call on every rank is the same meeting
    wait_for_next_round,  // those who call meet, however often each has called before
  };

  // `store`: the keys of this assembly alone.
  StoreBarrier(std::shared_ptr<Store> store, int rank, int size, Latecomers latecomers)
      : store_(std::move(store)), rank_(rank), size_(size), latecomers_(latecomers) {}

  struct Options {
    std::string statement;  // this rank's
    Deadline deadline;
    // At the first rank: what is wrong with what all have said, by rank; empty: nothing.
    std::function<std::string(const std::vector<std::string>& statements)> judge;
    // How to say that these did not come before the deadline.
    std::function<std::string(const std::vector<int>& missing)> name_missing;
    // Asked again and again while waiting. What check() throws ends the meeting; departed() are the ranks
    // that have left the group and will not come any more, in order.
    std::function<void()> check;
    std::function<std::vector<int>()> departed;
  };

  struct Decision {
    std::vector<int> missing;  // who was not there
    std::string text;          // empty: all is well

    [[nodiscard]] std::string encode() const;
    static Decision decode(const std::string& text);
  };
  // Returns the verdict, the same for all who came in time. A rank that is missing is named on every rank,
  // also where the first rank's deadline is a later one. Throws StoreError.
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

}  // namespace dlaunch
