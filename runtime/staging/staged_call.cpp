#include "runtime/staging/staged_call.h"

#include <algorithm>
#include <cstdint>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {

StagedCall::StagedCall(std::vector<StagedPart> parts, Setting setting)
    : parts_(std::move(parts)), setting_(std::move(setting)), progress_(parts_.size()) {}

bool StagedCall::advance(Turn turn) {
  const std::size_t last = std::min(parts_.size(), ended_ + parts_at_once);
  for (std::size_t number = ended_; number < last; ++number) {
    while (advance_part(number, turn)) ++changes_;
  }
  while (ended_ < parts_.size() && progress_[ended_].stage == Progress::Stage::ended) ++ended_;
  return ended_ == parts_.size();
}

// False: the part has to wait, or has ended.
bool StagedCall::advance_part(std::size_t number, Turn turn) {
  Progress& part = progress_[number];
  switch (part.stage) {
    case Progress::Stage::waiting:
      if (!turn.may_begin || (!turn.may_start && setting_.memory->is_full())) return false;
      begin_part(number);
      return true;
    case Progress::Stage::copying_to_host:
      if (!turn.may_start || started_ != number) return false;
      if (!is_reached(part.copied, parts_[number].in_place ? "the call's stream" : "the copy to the host"))
        return false;
      start_part(number);
      return true;
    case Progress::Stage::running:
      if (!part.work.has_ended()) return false;
      if (const std::exception_ptr error = part.work.exception()) std::rethrow_exception(error);
      end_part(number);
      return true;
    case Progress::Stage::copying_to_device:
      if (!is_reached(part.copied, "the copy back to the device")) return false;
      part.memory.reset();
      part.stage = Progress::Stage::ended;
      return false;
    case Progress::Stage::ended:
      return false;
  }
  return false;
}

void StagedCall::begin_part(std::size_t number) {
  Progress& part = progress_[number];
  part.stage = Progress::Stage::copying_to_host;
  ++begun_;
  if (parts_[number].in_place) {
    part.copied = setting_.begin;
    return;
  }
  part.memory = setting_.memory->take(parts_[number].bytes());
  const std::vector<DeviceCopies::Copy> copies = parts_[number].copies_to_host(part.memory.get());
  if (!copies.empty()) part.copied = setting_.copies->to_host(copies, setting_.begin);
}

void StagedCall::start_part(std::size_t number) {
  Progress& part = progress_[number];
  Operation operation = setting_.operation;
  operation.part = static_cast<std::uint16_t>(number);
  operation.async |= parts_.size() > 1;
  ++started_;
  part.stage = Progress::Stage::running;
  part.work = parts_[number].call(parts_[number].on_host(part.memory.get()), operation);
  if (!part.work.has_ended() && setting_.when_changed) {
    part.work.then([changed = setting_.when_changed](const Work&) { changed(); });
  }
}

void StagedCall::end_part(std::size_t number) {
  Progress& part = progress_[number];
  source_rank_ = part.work.source_rank();
  part.stage = Progress::Stage::copying_to_device;
  part.copied = {};
  const std::vector<DeviceCopies::Copy> copies = parts_[number].copies_to_device(part.memory.get());
  if (!copies.empty()) part.copied = setting_.copies->to_device(copies, setting_.begin);
  if (number + 1 == parts_.size()) end_->set(part.copied);
}

bool StagedCall::is_reached(const DeviceCopies::Place& place, const char* what) const {
  if (setting_.copies->is_reached(place)) return true;
  if (!has_passed(setting_.operation.deadline)) return false;
  throw DistBackendError(std::string(what) + " has not ended before the deadline: " + setting_.device +
                         " still works on what was started before it");
}

bool StagedCall::is_at_rest() {
  return std::ranges::all_of(progress_, [this](Progress& part) {
    if (part.stage == Progress::Stage::running) return part.work.has_ended();
    try {
      return setting_.copies->is_reached(part.copied);
    } catch (const DistError&) {
      return true;  // the device carries nothing out any more
    }
  });
}

}  // namespace dlaunch::internal
