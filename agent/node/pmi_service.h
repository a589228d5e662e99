// PMI-1 or PMIx for this node's workers: the state machine of the current round, between the workers'
// connections and the Member, through which barriers and values reach the other nodes. It decides nothing
// itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/control/member.h"
#include "agent/model/job.h"
#include "agent/model/pmi_wire.h"
#include "agent/model/worker_environment.h"
#include "agent/node/reporter.h"
#include "agent/pmi/mpi_server.h"
#include "store/base/io.h"

namespace dlaunch::agent {

class PmiService final : public PmiWireHandler, public TimerHandler {
 public:
  struct Dependencies {
    PmiWire& wire;        // not owned; outlives this
    Reporter& reporter;   // the same
    const Clock& clock;   // the same
    Timers& timers;       // the same
    MpiStart start;       // what the workers speak
    std::string folder;   // of the job, for temporary files; empty: none
    Duration note_after;  // a wait in a barrier of this length is reported; 0: never
    std::function<void(PmiEnter)> to_member;
    std::function<void(WorkerAborted)> to_group;
  };

  explicit PmiService(Dependencies dependencies);
  ~PmiService() override;
  PmiService(const PmiService&) = delete;
  PmiService& operator=(const PmiService&) = delete;

  // The workers of this world are about to start; those of the last one have ended. `own`: this node in it.
  void begin(const World& world, const WorldMember& own);
  // The variables by which a worker that speaks PMI-1 finds its connection; the keeper adds PMI_FD.
  void add_variables(Environment& environment, int local_rank) const;
  void on_release(const PmiRelease& release);
  // It will be in no further barrier.
  void on_returned_0(int local_rank);

  void on_pmi_bytes(ProcKey key, std::string_view bytes) override;
  void on_pmi_closed(ProcKey key) override;
  void on_timer(TimerId timer) override;

 private:
  [[nodiscard]] bool is_pmix() const { return dependencies_.start == MpiStart::pmix; }
  [[nodiscard]] ProcKey helper() const { return {round_, static_cast<std::uint32_t>(slots_)}; }
  [[nodiscard]] std::string name_of(int client) const;
  void act(const PmiActions& actions);
  void report_returned(bool is_new);
  void watch_barrier();

  Dependencies dependencies_;
  std::uint32_t round_ = 0;
  int base_rank_ = 0;
  int slots_ = 0;
  int world_size_ = 0;
  std::optional<int> returned_;           // the first local rank that has returned 0
  bool is_awaited_ = false;               // other local ranks wait for it, which the coordinator knows
  std::unique_ptr<MpiServer> server_;     // none before the first round
  TimerId note_timer_;                    // none: no rank waits, or its wait was reported
  std::optional<std::uint32_t> watched_;  // the barrier that it is for, or was
};

}  // namespace dlaunch::agent
