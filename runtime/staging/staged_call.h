// One call on device memory, from its copies to the host to its copies back.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/staging/device_copies.h"
#include "runtime/staging/pinned_memory.h"
#include "runtime/staging/staged_parts.h"

namespace dlaunch::internal {

// The place in the streams behind a call, once it is known. Any thread.
class StagedEnd {
 public:
  void set(DeviceCopies::Place place) {
    const std::lock_guard lock(mutex_);
    place_ = std::move(place);
  }
  [[nodiscard]] DeviceCopies::Place get() const {
    const std::lock_guard lock(mutex_);
    return place_;
  }

 private:
  mutable std::mutex mutex_;
  DeviceCopies::Place place_;  // null: not known yet; protected by mutex_
};

// Used by one thread at a time. It asks what has happened and does what follows, without waiting.
class StagedCall {
 public:
  struct Setting {
    std::shared_ptr<DeviceCopies> copies;
    std::shared_ptr<PinnedMemory> memory;
    Operation operation;
    DeviceCopies::Place begin;           // of the caller's stream: nothing is copied before
    std::function<void()> when_changed;  // called by any thread when a call on host memory has ended
    std::string device;                  // for messages
  };
  // So many parts are on their way at a time, and have pinned memory.
  static constexpr std::size_t parts_at_once = 3;

  StagedCall(std::vector<StagedPart> parts, Setting setting);

  // Which calls have to come before it, and have done this.
  struct Turn {
    bool may_begin =
        true;  // All copies of their parts to the host are in the stream, which keeps their order.
    bool may_start = true;  // All their parts have started on host memory.
  };

  // Does what can be done now. With operation.async false and one part only it waits for the call on host
  // memory. True: the call has ended. Throws DistError; then, and if nobody is interested in it any more, it
  // stays until is_at_rest().
  bool advance(Turn turn);

  // Of all its parts: what Turn asks of the next call's predecessors.
  [[nodiscard]] bool has_begun() const { return begun_ == parts_.size(); }
  [[nodiscard]] bool has_started() const { return started_ == parts_.size(); }
  // It grows with each thing that advance() has done.
  [[nodiscard]] std::size_t changes() const { return changes_; }
  // Neither a copy nor a call on host memory uses its memory.
  [[nodiscard]] bool is_at_rest();
  [[nodiscard]] const std::shared_ptr<StagedEnd>& end() const { return end_; }
  [[nodiscard]] int source_rank() const { return source_rank_; }  // of a receive that has ended; else -1

 private:
  struct Progress {
    enum class Stage : std::uint8_t { waiting, copying_to_host, running, copying_to_device, ended };

    Stage stage = Stage::waiting;
    std::shared_ptr<std::byte> memory = {};
    DeviceCopies::Place copied = {};
    Work work = {};
  };

  bool advance_part(std::size_t number, Turn turn);
  void begin_part(std::size_t number);
  void start_part(std::size_t number);
  void end_part(std::size_t number);
  bool is_reached(const DeviceCopies::Place& place, const char* what) const;

  const std::vector<StagedPart> parts_;
  const Setting setting_;
  const std::shared_ptr<StagedEnd> end_ = std::make_shared<StagedEnd>();
  std::vector<Progress> progress_;
  std::size_t changes_ = 0;
  std::size_t begun_ = 0;  // parts, in their order; so below
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
  int source_rank_ = -1;
};

}  // namespace dlaunch::internal
