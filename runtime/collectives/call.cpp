#include "runtime/collectives/call.h"

namespace dlaunch {

std::string to_string(const Call& call) {
  const std::string values = std::to_string(call.count) + " x " + std::string(to_string(call.dtype));
  switch (call.kind) {
    case CallKind::all_reduce:
      return "all_reduce(" + values + ", " + std::string(to_string(call.op)) + ")";
    case CallKind::broadcast:
      return "broadcast(" + values + ", src " + std::to_string(call.root) + ")";
    case CallKind::all_gather:
      return "all_gather(" + values + " in all)";
    case CallKind::barrier:
      return "barrier()";
    case CallKind::reduce:
      return "reduce(" + values + ", " + std::string(to_string(call.op)) + ", dst " +
             std::to_string(call.root) + ")";
    case CallKind::gather:
      return "gather(" + values + " each, dst " + std::to_string(call.root) + ")";
    case CallKind::scatter:
      return "scatter(" + values + " each, src " + std::to_string(call.root) + ")";
    case CallKind::reduce_scatter:
      return "reduce_scatter(" + values + " in all, " + std::string(to_string(call.op)) + ")";
    case CallKind::all_to_all:
      return "all_to_all(" + std::string(to_string(call.dtype)) + ")";
    case CallKind::all_reduce_coalesced:
      return "all_reduce_coalesced(" + values + " in all, " + std::string(to_string(call.op)) + ")";
  }
  return "an unknown operation";
}

}  // namespace dlaunch
