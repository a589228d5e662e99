// The input of a process that spawn() starts by exec: a file in memory and a pipe, by their numbers in an
// environment variable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/spawned_rank.h"

namespace dlaunch::internal {

// "FILE,PIPE". Present from exec until run_if_spawned() has read it.
inline constexpr std::string_view spawn_variable = "DLAUNCH_SPAWN";

// Such a process writes this to the pipe when it starts its function; its report may follow.
inline const std::string spawn_begun = "b";

struct SpawnMessage {
  SpawnOrder order;
  std::string function;
  std::vector<std::string> arguments;
};

// The descriptor of a file with the message, to be closed by the caller. Throws DistError.
int spawn_message(const SpawnMessage& message);

// argv and the environment of this process, without spawn's variable.
std::vector<std::string> own_command_line();
std::vector<std::string> own_environment();

}  // namespace dlaunch::internal
