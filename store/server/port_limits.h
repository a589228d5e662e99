// How many unauthenticated connections a port accepts, and for how long. The numbers follow from the
// process's limit on descriptors, so that members and /healthz get one when other connections hold the rest.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "store/base/time.h"

namespace dlaunch::store {

struct PortLimits {
  // A connection without a protocol byte ends after this time, which is the timeout of PyTorch's clients. So
  // does an agent's connection that has not joined. Exception: PyTorch before 2.1 opens a second connection
  // that stays silent; one is kept for each of its clients from the same address.
  Duration silent_time = std::chrono::minutes(5);
  Duration http_time = std::chrono::seconds(30);  // for a whole HTTP request
  // Younger connections are ended only when descriptors are few: many ranks may connect in one instant.
  Duration grace = std::chrono::seconds(2);
  std::size_t unidentified = 4096;          // of all addresses,
  std::size_t unidentified_of_host = 1024;  // of one, and at most a quarter of all connections
  // Descriptors that unauthenticated connections and store clients leave free.
  std::size_t reserved = 16;
  // Descriptors that the process may still open. Unset: enough.
  std::function<std::size_t()> free_descriptors = {};
};

}  // namespace dlaunch::store
