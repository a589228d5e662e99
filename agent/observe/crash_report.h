// Reads from a worker's page how it crashed, and names the functions of its stack. Accesses only files.
#pragma once

#include <optional>
#include <string>

#include "agent/model/crash.h"

namespace dlaunch::agent {

// None: no such page, or it shows no crash. After SIGBUS no program or library is read for names: the file
// system that it comes from may not answer.
std::optional<Crash> read_crash(const std::string& page);

}  // namespace dlaunch::agent
