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
#include <span>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "store/store.h"

namespace dlaunch {

// One kind of meetings of one group. Used by one thread at a time.
class Assembly {
 public:
  // `store`: the keys of this assembly alone.
  Assembly(std::shared_ptr<Store> store, int rank, int size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  struct Meeting {
    std::string statement;  // this rank's
    Deadline deadline;
    // At the first rank: what is wrong with what all have said, by rank; empty: nothing.
    std::function<std::string(const std::vector<std::string>& statements)> judge;
    // At the first rank: how to say that these did not come.
    std::function<std::string(const std::vector<int>& missing)> name_missing;
    // Asked again and again while waiting; what it throws ends the meeting.
    std::function<void()> check;
  };

  // The n-th call on every rank is the same meeting. Returns the verdict, the same for all who came in time:
  // empty if all is well. Throws StoreError.
  std::string meet(const Meeting& meeting);

 private:
  [[nodiscard]] bool await(std::span<const std::string> keys, const Meeting& meeting);
  std::string preside(const std::string& place, const Meeting& meeting);

  const std::shared_ptr<Store> store_;
  const int rank_;
  const int size_;
  std::uint64_t meetings_ = 0;
  bool last_was_complete_ = false;  // as far as this rank knows
};

}  // namespace dlaunch
