#include "examples/train_mnist/team.h"

#include <dlaunch/distributed.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace mnist {
namespace {

// FNV-1a
std::uint64_t fingerprint(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : bytes) {
    hash ^= static_cast<std::uint64_t>(byte);
    hash *= 0x100000001b3U;
  }
  return hash;
}

}  // namespace

Team::Team(bool launched, const std::string& backend) : launched_(launched) {
  if (!launched_) return;
  dlaunch::init_process_group({.backend = backend});
  rank_ = static_cast<std::size_t>(dlaunch::get_rank());
  size_ = static_cast<std::size_t>(dlaunch::get_world_size());
}

Team::~Team() {
  if (!launched_) return;
  try {
    dlaunch::destroy_process_group();
  } catch (const dlaunch::DistError&) {
    // The work is done or an error is on its way already; there is nobody left to tell.
  }
}

void Team::sum(const dlaunch::Tensor& values) const {
  if (launched_) dlaunch::all_reduce(values, dlaunch::ReduceOp::sum);
}

void Team::copy_from_first(std::span<float> values) const {
  if (launched_) dlaunch::broadcast(dlaunch::Tensor::of(values), 0);
}
void Team::copy_from_first(std::span<std::int64_t> values) const {
  if (launched_) dlaunch::broadcast(dlaunch::Tensor::of(values), 0);
}

std::uint64_t Team::require_same(std::span<const std::byte> bytes, std::string_view what) const {
  const std::uint64_t own = fingerprint(bytes);
  if (!launched_) return own;
  std::vector<std::int64_t> all(size_);
  const std::vector<std::int64_t> mine{static_cast<std::int64_t>(own)};
  dlaunch::all_gather_into_tensor(dlaunch::Tensor::of(all), dlaunch::Tensor::of(mine));
  for (std::size_t rank = 1; rank < size_; ++rank)
    if (all[rank] != all[0])
      throw std::runtime_error(std::string(what) + " of rank " + std::to_string(rank) +
                               " differ from those of rank 0");
  return own;
}

void Team::wait_for_all() const {
  if (launched_) dlaunch::barrier();
}

}  // namespace mnist
