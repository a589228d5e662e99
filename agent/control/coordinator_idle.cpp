// What the coordinator does about a job whose workers record nothing, and are all idle: it may hang.
#include <string>
#include <utility>

#include "agent/control/coordinator.h"
#include "store/base/text.h"

namespace dlaunch::agent {

void Coordinator::note_if_idle(CoordinatorActions& out) {
  const Duration idle = hang_detector_.idle(membership_);
  if (idle == Duration(0)) hang_detector_.forget_records();
  if (!idle_notes_.take(idle)) return;
  note_idle(idle, out);
  out.emplace_back(LogMessage{Severity::info, "all stacks: dlaunch dump " + job_.id + " on each host"});
  hang_detector_.forget_records();
  inspects_ = true;
  for (const auto& [member, node] : membership_.nodes()) {
    if (node.active && !node.done) out.emplace_back(ToMember{member, InspectionRequest{world_.round}});
  }
}

void Coordinator::note_idle(Duration idle, CoordinatorActions& out) const {
  Event note{EventKind::stalled, world_.round};
  note.text =
      "the job may hang, or waits for something outside: no worker has used the CPU or printed anything "
      "for " +
      to_words(idle);
  out.emplace_back(LogMessage{Severity::warning, note.text});
  out.emplace_back(std::move(note));
}

void Coordinator::on_inspected(MemberId member, const Inspected& inspected, CoordinatorActions& out) {
  if (inspected.round != world_.round || state_ != State::running) return;
  hang_detector_.take_records(member, inspected.groups);
  if (!inspects_ || !hang_detector_.has_all_records(membership_)) return;
  inspects_ = false;
  report_records(out);
}

// Nothing, if the workers have no records.
void Coordinator::report_records(CoordinatorActions& out) const {
  const Diagnosis diagnosis = hang_detector_.diagnosis();
  if (diagnosis.sentences.empty()) return;
  Failure missing;
  missing.kind = FailureKind::hang;
  missing.why = "by PyTorch's records " + diagnosis.sentences.front();
  if (!diagnosis.missing.empty()) missing.rank = diagnosis.missing.front();
  place_worker(missing, world_);
  Event note{EventKind::stalled, world_.round, missing.node_rank, missing.host, missing.rank};
  note.text = describe(missing);
  out.emplace_back(LogMessage{Severity::warning, note.text});
  out.emplace_back(std::move(note));
  for (std::size_t i = 1; i < diagnosis.sentences.size(); ++i)
    out.emplace_back(LogMessage{Severity::warning, diagnosis.sentences[i]});
}

}  // namespace dlaunch::agent
