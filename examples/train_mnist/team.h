// The workers that train together: everything distributed about this program.
#pragma once

#include <dlaunch/tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mnist {

// All members make the same calls in the same order. Every call throws dlaunch::DistError when another worker
// is lost.
class Team {
 public:
  // Joins the others, when `launched` (all of them have to come); else this process is the whole team.
  // `backend`: of libdlaunch; empty: its own choice.
  Team(bool launched, const std::string& backend);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Every worker's values become the sums over all workers: the same bits everywhere.
  void sum(const dlaunch::Tensor& values) const;

  // Every worker's values become those of rank 0.
  void copy_from_first(std::span<float> values) const;
  void copy_from_first(std::span<std::int64_t> values) const;

  // Throws std::runtime_error, on every worker alike, if they do not all hold the same bytes; `what` says
  // what they are. Returns a fingerprint of the bytes.
  std::uint64_t require_same(std::span<const std::byte> bytes, std::string_view what) const;

  // Returns when all workers have come here.
  void wait_for_all() const;

 private:
  std::size_t rank_ = 0;
  std::size_t size_ = 1;
  bool launched_;
};

}  // namespace mnist
