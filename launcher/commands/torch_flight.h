// The JSON of PyTorch's flight recorder in a worker: where its rank is, and the same for torchfrtrace. Pure.
//
// Formats 2.4 to 2.10 (PyTorch 2.5 to 2.15), of gloo and of NCCL. What has another type than it should is
// left out: the JSON comes from the worker.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/collective_progress.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// Whose record it is, and when it was made.
struct RecordedRank {
  int rank = 0;  // in the job
  int world_size = 1;
  std::int64_t unix_ns = 0;
};

struct TorchFlight {
  // The rank's place in its groups; the default one always, if anything is recorded. Groups of the same name
  // and description have the same identity.
  std::vector<agent::GroupProgress> groups;
  std::size_t operations = 0;
  bool waits = false;  // in a collective

  // Of two recorders of a rank, its gloo's and its NCCL's: the one in which it waits, or which has more.
  [[nodiscard]] bool says_more_than(const TorchFlight& other) const {
    return waits != other.waits ? waits : operations > other.operations;
  }
};

Result<TorchFlight> read_torch_flight(std::string_view json, const RecordedRank& whose);

// For a file that torchfrtrace reads, as PyTorch writes it (pickled). Operations of groups whose ranks are
// not known are left out, since torchfrtrace cannot place them. An error as of read_torch_flight.
Result<std::string> torch_flight_file(std::string_view json, const RecordedRank& whose);

}  // namespace dlaunch::launcher
