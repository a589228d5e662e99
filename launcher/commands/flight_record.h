// A worker's operations in the fields of PyTorch's flight recorder. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "agent/model/worker_record.h"

namespace dlaunch::launcher {

// "all_reduce", "send 1->2", "recv 3<-0": by ranks in the group. `any_peer`: the text for a message from any
// rank.
std::string describe_call(const agent::WorkerRecord::Entry& entry, const agent::WorkerRecord::Group& group,
                          std::string_view any_peer);

// version, rank, world_size, pg_config, pg_status and entries.
nlohmann::ordered_json flight_of(const agent::WorkerRecord& record);

// The same for torchfrtrace: only the collectives that it knows, under PyTorch's names. Point-to-point
// messages are left out, since torchfrtrace treats each as a collective of the whole group.
nlohmann::ordered_json flight_for_torchfrtrace(const agent::WorkerRecord& record);

}  // namespace dlaunch::launcher
