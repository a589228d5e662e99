#include "runtime/collectives/collective_fingerprint.h"

namespace dlaunch::internal {

std::string to_string(const CollectiveFingerprint& fingerprint) {
  const std::string values =
      std::to_string(fingerprint.count) + " x " + std::string(to_string(fingerprint.dtype));
  switch (fingerprint.kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce(" + values + ", " + std::string(to_string(fingerprint.op)) + ")";
    case CollectiveKind::broadcast:
      return "broadcast(" + values + ", src " + std::to_string(fingerprint.root) + ")";
    case CollectiveKind::all_gather:
      return "all_gather(" + values + " in all)";
    case CollectiveKind::barrier:
      return "barrier()";
    case CollectiveKind::reduce:
      return "reduce(" + values + ", " + std::string(to_string(fingerprint.op)) + ", dst " +
             std::to_string(fingerprint.root) + ")";
    case CollectiveKind::gather:
      return "gather(" + values + " each, dst " + std::to_string(fingerprint.root) + ")";
    case CollectiveKind::scatter:
      return "scatter(" + values + " each, src " + std::to_string(fingerprint.root) + ")";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter(" + values + " in all, " + std::string(to_string(fingerprint.op)) + ")";
    case CollectiveKind::all_to_all:
      return "all_to_all(" + std::string(to_string(fingerprint.dtype)) + ")";
    case CollectiveKind::all_reduce_coalesced:
      return "all_reduce_coalesced(" + values + " in all, " + std::string(to_string(fingerprint.op)) + ")";
  }
  return "an unknown operation";
}

std::string describe_difference(int peer, const CollectiveFingerprint& theirs,
                                const CollectiveFingerprint& ours) {
  const bool same_text = to_string(theirs) == to_string(ours);
  return std::string(calls_differ) + "rank " + std::to_string(peer) + " calls " + to_string(theirs) +
         ", this rank " + to_string(ours) + (same_text ? " with other sizes of the outputs" : "");
}

}  // namespace dlaunch::internal
