// A worker's page as the agent reads it.
#pragma once

#include "agent/model/worker_record.h"
#include "tests/agent/model/made_page.h"

namespace dlaunch::agent {

// REQUIRES: the page can be read.
inline WorkerRecord record_of(const MadePage& page) { return *parse_worker_page(page.bytes(), page.bytes()); }

}  // namespace dlaunch::agent
