// One rank's side of a call, and values whose reduction is known.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/collectives/exchange.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::test {

using namespace internal;

// As the backend makes it.
struct Side {
  explicit Side(std::unique_ptr<Transport> its_transport, const CollectiveFingerprint& call = {})
      : transport(std::move(its_transport)), exchange(*transport, workspace, call, 1, soon()) {}

  std::unique_ptr<Transport> transport;
  Workspace workspace;
  Exchange exchange;
};

template <class T>
std::span<std::byte> bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Lengths in floats: none, fewer than ranks, fragment_limit (8192 floats), eager_limit (16384) and their
// neighbours, several segments of the ring, lengths that do not divide evenly.
inline const std::vector<std::size_t> lengths = {0,    1,    2,     3,     7,     64,     1000,   8191,
                                                 8192, 8193, 16384, 16385, 20011, 300007, 1200001};

inline float value_of(int rank, std::size_t index) {
  return static_cast<float>(static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 101) - 50);
}

inline std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

inline std::vector<float> sum_of_all(int size, std::size_t count) {
  std::vector<float> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += value_of(rank, i);
  }
  return sum;
}

}  // namespace dlaunch::test
