// For how long workers that refer to each other's values may go without reaching each other.
//
// A worker that uses values of another one renews its lease there now and then. If it gets no acknowledgement
// for the length of the lease, it takes the owner for dead: its references are broken. The owner counts from
// the arrival of a renewal, and half a lease more: so it gives up a user, and with it values that no other
// worker uses, after that user has given up the values. Clocks only have to run at the same rate.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/rpc_protocol/reference_table.h"

namespace dlaunch::internal {

class ReferenceLeases {
 public:
  // 0: leases do not end, and nothing is renewed.
  explicit ReferenceLeases(std::chrono::milliseconds length) : length_(length) {}

  [[nodiscard]] bool is_on() const { return length_.count() > 0; }
  // The time between two looks.
  [[nodiscard]] std::chrono::milliseconds period() const;

  struct Look {
    std::set<WorkerId> renew;  // at these a renewal is due
    std::set<WorkerId> over;   // take these for dead
  };
  // `owners`: whose values this worker uses; `users`: who use values of this one. A lease begins with the
  // first look that has it.
  Look look(Deadline now, const std::set<WorkerId>& owners, const std::set<WorkerId>& users);
  // The owner has acknowledged a renewal that was sent then.
  void on_acknowledged(WorkerId owner, Deadline sent);
  // A renewal, or another sign of life, has come from this user.
  void on_renewal(WorkerId user, Deadline now);

 private:
  using Times = std::map<WorkerId, Deadline>;
  static void follow(Times& times, const std::set<WorkerId>& workers, Deadline now);

  const std::chrono::milliseconds length_;
  Times acknowledged_;  // by owner: the last renewal that it has acknowledged
  Times arrived_;       // by user: the last renewal
};

}  // namespace dlaunch::internal
