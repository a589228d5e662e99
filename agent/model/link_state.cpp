#include "agent/model/link_state.h"

#include <optional>
#include <tuple>

namespace dlaunch::agent {
namespace {

// With the kernel's first pause of 0.2 s, doubled each time: after 1.4 s.
constexpr std::uint32_t several = 3;
constexpr Duration long_full = std::chrono::seconds(1);

std::optional<StalledLink> stall_of(const LinkState& link) {
  if (link.unacknowledged > 0 && link.retransmissions >= several)
    return StalledLink{link.peer, false, link.retransmissions, link.silent};
  if (link.unsent > 0 && link.probes >= several)
    return StalledLink{link.peer, false, link.probes, link.silent};
  if (link.unsent > 0 && link.unacknowledged == 0 && link.since_sent >= long_full)
    return StalledLink{link.peer, true, 0, link.since_sent};
  return std::nullopt;
}

}  // namespace

StalledLink worst_link(std::span<const LinkState> links) {
  StalledLink worst;
  const auto weight = [](const StalledLink& link) {
    return std::tuple(link.peer >= 0, !link.is_full, link.silent);
  };
  for (const LinkState& link : links) {
    const auto stall = stall_of(link);
    if (stall && weight(*stall) > weight(worst)) worst = *stall;
  }
  return worst;
}

}  // namespace dlaunch::agent
