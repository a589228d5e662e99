// Reads from a worker's page how it crashed, and names the functions of its stack. Accesses only files.
#pragma once

#include <optional>
#include <string>

#include "agent/model/crash.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// None: no such page, or it shows no crash. After SIGBUS no program or library is read for names: the file
// system that it comes from may not answer.
std::optional<Crash> read_crash(const std::string& page);

// Makes the process of this page write the stack of its main thread into the page, soon. The signal for it is
// sent only to a process that has a handler for it. Does nothing otherwise.
void request_stack(const std::string& page);

// That stack. None: no such page, or no stack has been written since `since`.
std::optional<Crash> read_stack(const std::string& page, TimePoint since);

}  // namespace dlaunch::agent
