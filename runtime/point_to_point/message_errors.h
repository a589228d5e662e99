// What messengers report.
#pragma once

#include <exception>
#include <string>

#include "dlaunch/error.h"
#include "dlaunch/tensor.h"
#include "dlaunch/transport.h"

namespace dlaunch::internal {

// Only objects use tags above the program's.
inline std::string describe(Tag tag) {
  return tag >> 32U == 0 ? "tag " + std::to_string(tag) : std::string("an object");
}

inline std::string describe(DType dtype, std::uint64_t count) {
  return std::to_string(count) + " x " + std::string(to_string(dtype));
}

inline constexpr const char* group_was_destroyed = "the group was destroyed before the message was received";
inline constexpr const char* all_have_left = "all other ranks have left the group";

inline std::exception_ptr network_error(const std::string& reason, int peer) {
  return std::make_exception_ptr(DistNetworkError(reason, {.peer = peer}));
}

}  // namespace dlaunch::internal
