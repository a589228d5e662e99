// Which nodes a coordinator takes into the job, and why it refuses the others. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/control/membership.h"
#include "agent/control/messages.h"
#include "agent/model/job.h"

namespace dlaunch::agent {

class Admission {
 public:
  // No round is above it, so that none can be made to overflow.
  static constexpr std::uint32_t last_round = 1U << 30;

  // What the coordinator knows when a node comes.
  struct Situation {
    const Membership& here;
    const std::vector<Restart>& restarts;  // what has happened to the job
    bool forming = false;                  // no world runs
    bool ending = false;
    int fewest = 0;  // nodes without which the job cannot go on
  };

  struct Refusal {
    std::string why;     // empty: the node can take part
    std::string remedy;  // what its user can try; empty: nothing that would help is known

    bool operator==(const Refusal&) const = default;
  };

  explicit Admission(const JobSpec& job);

  // Why this node can never take part.
  [[nodiscard]] Refusal reason_to_refuse(const Join& join, const Situation& now) const;
  // The reason to reject it for now; empty: none. `believed`: the fencing token that it claims to know is.
  [[nodiscard]] std::string reason_to_wait(const Join& join, const Membership& here, bool believed) const;

  // A node was refused. The last few kinds are kept: a node that was refused tries again.
  void remember(const std::string& peer, const std::string& why, std::string remedy = "");
  void forget_refusals() { refusals_.clear(); }
  // "; refused meanwhile: host vm (this job has --nnodes=2, not 3)"; empty: no node was.
  [[nodiscard]] std::string refused_meanwhile() const;
  // The remedy of the last one; empty: no node was refused, or it has none.
  [[nodiscard]] std::string remedy_of_refusal() const { return refusals_.empty() ? "" : remedy_; }

 private:
  [[nodiscard]] Refusal out_of_range(const Join& join) const;
  [[nodiscard]] Refusal left_out(const Join& join, const Situation& now) const;
  [[nodiscard]] Refusal no_room(const Join& join, const Situation& now) const;
  [[nodiscard]] std::string free_ranks(const Join& join, const Membership& here) const;

  JobSpec job_;
  std::string rules_;  // of the job: each node that joins must have been given the same
  std::vector<std::string> refusals_;
  std::string remedy_;
};

}  // namespace dlaunch::agent
