#include "runtime/collectives/call.h"

namespace dlaunch {

std::string to_string(const Call& call) {
  const std::string values = std::to_string(call.count) + " x " + std::string(to_string(call.dtype));
  switch (call.kind) {
    case CallKind::all_reduce:
      return "all_reduce(" + values + ", " + std::string(to_string(call.op)) + ")";
    case CallKind::broadcast:
      return "broadcast(" + values + ", src " + std::to_string(call.src) + ")";
    case CallKind::all_gather:
      return "all_gather(" + values + " in all)";
    case CallKind::barrier:
      return "barrier()";
  }
  return "an unknown operation";
}

}  // namespace dlaunch
