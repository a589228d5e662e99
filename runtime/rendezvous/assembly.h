// The ranks of a group meet through the store: each says something, the first rank looks at what all have
// said, and all hear its verdict.
//
// Why not through the backend: a rank that does not come must be named without harm to the group, and a wait
// on the backend that ends too early breaks it (RUNTIME's trap: a time-limited probe over the data
// connections). It also works for every backend alike. Cost: two round trips to the store for each rank, none
// of them growing with the group but those of the first rank.
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
class Assembly {
 public:
  // What becomes of a rank that comes when a meeting has ended without it.
  enum class Latecomers : std::uint8_t {
    hear_the_verdict,   // the n-th call on every rank is the same meeting
    wait_for_the_next,  // those who call meet, however often each has called before
  };

  // `store`: the keys of this assembly alone.
  Assembly(std::shared_ptr<Store> store, int rank, int size, Latecomers latecomers)
      : store_(std::move(store)), rank_(rank), size_(size), latecomers_(latecomers) {}

  struct Meeting {
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

  struct Verdict {
    std::vector<int> missing;  // who was not there
    std::string text;          // empty: all is well

    [[nodiscard]] std::string encode() const;
    static Verdict decode(const std::string& text);
  };
  // Returns the verdict, the same for all who came in time. A rank that is missing is named on every rank,
  // also where the first rank's deadline is a later one. Throws StoreError.
  Verdict meet(const Meeting& meeting);

 private:
  enum class Wait : std::uint8_t { come, too_late, in_vain };

  [[nodiscard]] Wait await(std::span<const std::string> keys, const Meeting& meeting, Deadline deadline,
                           const std::function<bool()>& in_vain);
  void take_seat(const Meeting& meeting);
  Verdict preside(const Meeting& meeting);
  [[nodiscard]] Verdict judge(const Meeting& meeting);
  std::optional<Verdict> listen(const Meeting& meeting);
  Verdict give_up(const Meeting& meeting);
  [[nodiscard]] bool has_ended();
  [[nodiscard]] std::vector<int> unseated();
  [[nodiscard]] std::vector<std::string> seats() const;

  const std::shared_ptr<Store> store_;
  const int rank_;
  const int size_;
  const Latecomers latecomers_;
  std::uint64_t meeting_ = 0;       // the latest
  bool ended_ = true;               // the latest has, as far as this rank knows
  bool last_was_complete_ = false;  // the one before the latest, likewise
};

}  // namespace dlaunch
