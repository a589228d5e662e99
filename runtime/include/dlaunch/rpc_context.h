// A number that the calls of a thread carry (rpc.h), and under which their functions run: libdlaunch_torch's
// context of distributed autograd. Programs do not use it themselves.
#pragma once

#include <cstdint>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {
namespace rpc {
namespace rpc_detail {

// This thread's; 0: none. The callback of a future runs under that of the thread that has called then().
DLAUNCH_EXPORT std::uint64_t call_context();

// This thread's as long as it lives, then the one before.
class DLAUNCH_EXPORT CallContextScope {
 public:
  explicit CallContextScope(std::uint64_t context);
  ~CallContextScope();
  CallContextScope(const CallContextScope&) = delete;
  CallContextScope& operator=(const CallContextScope&) = delete;

 private:
  const std::uint64_t before_;
};

// For each call that is made or arrives under a context, with the id of the other worker. Does not block.
using MeetInContext = void (*)(std::uint64_t context, int worker);
DLAUNCH_EXPORT void on_meeting_in_context(MeetInContext meet);

}  // namespace rpc_detail
}  // namespace rpc
}  // namespace v1
}  // namespace dlaunch
