// How many connections a port takes from strangers, and for how long. The numbers follow from the descriptors
// that the process may open, so that members and /healthz find one when strangers hold all the others.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "store/base/time.h"

namespace dlaunch {

struct PortLimits {
  // A connection that has not said what it is ends after so long: as long as a client of PyTorch's waits. So
  // does an agent's that has not joined. An exception: PyTorch before 2.1 opens a second connection that
  // stays silent; one is kept for each of its clients from the same address.
  Duration silent_time = std::chrono::minutes(5);
  Duration http_time = std::chrono::seconds(30);  // in which an HTTP request must be whole
  // Connections younger than this are ended only when descriptors are few: many ranks may come in one
  // instant.
  Duration grace = std::chrono::seconds(2);
  std::size_t unidentified = 4096;          // most of all addresses,
  std::size_t unidentified_of_host = 1024;  // of one, and not more than a quarter of all connections
  // Descriptors that connections of strangers and of store clients leave free.
  std::size_t reserved = 16;
  // How many descriptors the process may still open. Unset: enough.
  std::function<std::size_t()> free_descriptors = {};
};

}  // namespace dlaunch
