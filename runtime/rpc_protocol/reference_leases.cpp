#include "runtime/rpc_protocol/reference_leases.h"

#include <algorithm>

namespace dlaunch::internal {

std::chrono::milliseconds ReferenceLeases::period() const {
  return std::max(std::chrono::milliseconds(1), length_ / 8);
}

void ReferenceLeases::follow(Times& times, const std::set<WorkerId>& workers, Deadline now) {
  std::erase_if(times, [&](const auto& one) { return !workers.contains(one.first); });
  for (const WorkerId worker : workers) times.try_emplace(worker, now);
}

ReferenceLeases::Look ReferenceLeases::look(Deadline now, const std::set<WorkerId>& owners,
                                            const std::set<WorkerId>& users) {
  Look found;
  if (!is_on()) return found;
  follow(acknowledged_, owners, now);
  follow(arrived_, users, now);
  for (const auto& [owner, when] : acknowledged_)
    (now - when >= length_ ? found.over : found.renew).insert(owner);
  for (const auto& [user, when] : arrived_) {
    if (now - when >= length_ + length_ / 2) found.over.insert(user);
  }
  return found;
}

void ReferenceLeases::on_acknowledged(WorkerId owner, Deadline sent) {
  const auto at = acknowledged_.find(owner);
  if (at != acknowledged_.end()) at->second = std::max(at->second, sent);
}

void ReferenceLeases::on_renewal(WorkerId user, Deadline now) {
  const auto at = arrived_.find(user);
  if (at != arrived_.end()) at->second = std::max(at->second, now);
}

}  // namespace dlaunch::internal
