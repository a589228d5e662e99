// --events-format=torchelastic: the job's events as PyTorch's torch.distributed.elastic.events writes them,
// for programs that read those. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "agent/model/event.h"
#include "launcher/options/plan.h"

namespace dlaunch::launcher {

// The fields of a record that an event does not have.
struct EventFacts {
  std::string run_id;
  std::string role;
  std::string host;
  std::string entry_point;
  std::string rdzv_backend;
  std::string master_endpoint;
};

EventFacts event_facts_of(const JobPlan& plan);

// One JSON object and a line end. Events of a worker or of the job have the fields of torchelastic's Event
// (name, source, timestamp, metadata); events of a node have those of its RdzvEvent (name, run_id, message,
// hostname, pid, node_state, ...). `unix_ms`: the time.
std::string torchelastic_event(const agent::Event& event, const EventFacts& facts, std::int64_t unix_ms);

}  // namespace dlaunch::launcher
