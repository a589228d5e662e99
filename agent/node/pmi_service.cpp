#include "agent/node/pmi_service.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "agent/pmi/pmi_server.h"
#include "agent/pmi/pmix_server.h"
#include "agent/pmi/process_mapping.h"
#include "store/base/overloaded.h"
#include "store/contract/worker_env.h"

namespace dlaunch::agent {

PmiService::PmiService(Dependencies dependencies) : dependencies_(std::move(dependencies)) {
  dependencies_.wire.set_handler(*this);
}

PmiService::~PmiService() { dependencies_.timers.disarm(note_timer_); }

void PmiService::begin(const World& world, const WorldMember& own) {
  round_ = world.round;
  base_rank_ = own.base_rank;
  slots_ = own.slots;
  world_size_ = world.world_size;
  returned_.reset();
  is_awaited_ = false;
  watched_.reset();
  const std::string name = "dlaunch_" + std::to_string(world.leader) + "_" + std::to_string(world.round);
  MpiWorld mpi{
      name, own.slots, own.base_rank, world.world_size, process_mapping(world.blocks), dependencies_.folder};
  if (!is_pmix()) {
    server_ = std::make_unique<PmiServer>(std::move(mpi));
    return;
  }
  server_ = std::make_unique<PmixServer>(std::move(mpi));
  const std::string why = dependencies_.wire.start_pmix(helper());
  if (why.empty()) return;
  dependencies_.reporter.report({Severity::warning, "cannot start the process that serves PMIx: " + why});
  act(server_->on_closed(slots_));
}

void PmiService::add_variables(Environment& environment, int local_rank) const {
  if (is_pmix()) return;
  environment.emplace_back(env::pmi_rank, std::to_string(base_rank_ + local_rank));
  environment.emplace_back(env::pmi_size, std::to_string(world_size_));
}

void PmiService::on_release(const PmiRelease& release) {
  if (server_ && release.round == round_)
    act(server_->on_released(release.barrier, release.entries, release.last));
  watch_barrier();
}

void PmiService::on_returned_0(int local_rank) {
  if (!server_) return;
  if (is_pmix()) dependencies_.wire.take_now(helper());  // that it has finalized, perhaps
  server_->on_returned_0(local_rank);
  if (returned_) return;
  returned_ = local_rank;
  report_returned(true);
}

// Once when the rank has returned, and once when others wait for it, which may be later.
void PmiService::report_returned(bool is_new) {
  const bool waits = returned_ && server_->has_waiting() && !std::exchange(is_awaited_, true);
  if (is_new || waits)
    dependencies_.to_member({round_, server_->barrier(), {}, true, base_rank_ + *returned_, waits});
}

void PmiService::on_pmi_bytes(ProcKey key, std::string_view bytes) {
  if (!server_ || key.round != round_) return;
  act(server_->on_bytes(static_cast<int>(key.local_rank), bytes));
  report_returned(false);
  watch_barrier();
}

void PmiService::on_pmi_closed(ProcKey key) {
  if (!server_ || key != helper()) return;
  dependencies_.reporter.report({Severity::warning, "the process that serves PMIx has ended"});
  act(server_->on_closed(slots_));
}

// Each barrier has its own time, from its first rank on.
void PmiService::watch_barrier() {
  if (!server_ || dependencies_.note_after == Duration(0)) return;
  const auto barrier = server_->has_waiting() ? std::optional(server_->barrier()) : std::nullopt;
  if (barrier == watched_) return;
  watched_ = barrier;
  dependencies_.timers.disarm(std::exchange(note_timer_, TimerId{}));
  if (barrier)
    note_timer_ = dependencies_.timers.arm(dependencies_.clock.now() + dependencies_.note_after, *this);
}

// It may be no error: a rank may read data before it starts MPI.
void PmiService::on_timer(TimerId) {
  note_timer_ = {};
  if (!server_ || !server_->has_waiting()) return;
  std::string whom;
  for (const int rank : server_->late())
    whom += (whom.empty() ? "rank " : ", rank ") + std::to_string(base_rank_ + rank);
  dependencies_.reporter.report(
      {Severity::warning, "ranks of this node have waited in MPI_Init or MPI_Finalize for " +
                              to_words(dependencies_.note_after) + ", for " +
                              (whom.empty() ? "ranks of other nodes" : whom)});
}

std::string PmiService::name_of(int client) const {
  return client < slots_ ? "PMI connection of rank " + std::to_string(base_rank_ + client)
                         : "connection of the process that serves PMIx";
}

void PmiService::act(const PmiActions& actions) {
  const auto key_of = [&](int client) { return ProcKey{round_, static_cast<std::uint32_t>(client)}; };
  for (const PmiAction& action : actions) {
    std::visit(
        Overloaded{
            [&](const PmiReply& a) { dependencies_.wire.send(key_of(a.client), a.bytes); },
            [&](const PmiDrop& a) {
              dependencies_.wire.close(key_of(a.client));
              dependencies_.reporter.report(
                  {Severity::warning, "ended the " + name_of(a.client) + ": " + a.why});
            },
            [&](const PmiArrived& a) {
              std::vector<std::vector<PmiEntry>> pieces = in_messages(a.entries);
              for (std::size_t i = 0; i < pieces.size(); ++i)
                dependencies_.to_member({round_, a.barrier, std::move(pieces[i]), i + 1 == pieces.size()});
            },
            [&](const PmiAborted& a) {
              dependencies_.to_group({a.local_rank, a.code});
            }},
        action);
  }
}

}  // namespace dlaunch::agent
