// The flight recorder: shows the agent, in the worker's mapped page, which operations this process has begun
// and ended (store/contract/worker_page.h). Without a page it does nothing; no call fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dlaunch/tensor.h"
#include "runtime/base/deadline.h"
#include "store/contract/worker_page.h"

namespace dlaunch::internal {

// A begun operation, for its end.
struct RecordMark {
  std::uint64_t number = 0;
  std::uint64_t sequence = 0;
  bool collective = false;
  bool awaited = false;
};

// One group's part of the page, or of none. begin() and end() may come from any thread.
class GroupRecorder {
 public:
  struct What {
    page::Operation operation = page::Operation::none;
    std::optional<DType> dtype = std::nullopt;
    std::uint64_t input = 0;  // elements
    std::uint64_t output = 0;
  };

  GroupRecorder() = default;
  GroupRecorder(page::Page* page, page::Group* group) : page_(page), group_(group) {}

  // `limit` has the time of the begin, since the caller has read the clock already: that is a large part of a
  // record's cost. `awaited`: a collective that ends before the next one of its group begins.
  RecordMark begin(const What& what, std::uint64_t sequence, int peer, const Timeout& limit,
                   bool awaited = false) const {
    if (group_ == nullptr) return {};
    return {write_begin(what, sequence, peer, limit), sequence, page::is_collective(what.operation), awaited};
  }
  // How far the device is, to whose stream the operation was given.
  void put_on_device(const RecordMark& mark, page::Record::OnDevice where) const {
    if (group_ != nullptr) write_on_device(mark, where);
  }
  void end(const RecordMark& mark, bool success) const {
    if (group_ != nullptr) write_end(mark, success);
  }
  // The process is no longer a member; no operation begins any more.
  void leave() const;
  // An operation failed because this rank of the default group was lost, and that broke the group. Only the
  // process's first loss is kept.
  void record_loss(int rank, page::Loss loss, page::Operation operation, std::uint64_t sequence) const;

 private:
  // Returns the record's number.
  [[nodiscard]] std::uint64_t write_begin(const What& what, std::uint64_t sequence, int peer,
                                          const Timeout& limit) const;
  void write_on_device(const RecordMark& mark, page::Record::OnDevice where) const;
  void write_end(const RecordMark& mark, bool success) const;

  page::Page* page_ = nullptr;
  page::Group* group_ = nullptr;
};

// Ends its operation as failed, unless hand_over() was called.
class Recording {
 public:
  // As GroupRecorder::begin().
  Recording(const GroupRecorder& group, const GroupRecorder::What& what, std::uint64_t sequence, int peer,
            const Timeout& limit, bool awaited = false)
      : group_(&group), mark_(group.begin(what, sequence, peer, limit, awaited)) {}
  ~Recording() {
    if (group_ != nullptr) group_->end(mark_, false);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The caller then ends the operation.
  const RecordMark& hand_over() {
    group_ = nullptr;
    return mark_;
  }

 private:
  const GroupRecorder* group_;
  const RecordMark mark_;
};

// As long as it lives, a thread of this process waits for other ranks outside of a collective: for a message,
// or to form a group. The agent's --hang-timeout considers such waits.
class WaitRecord {
 public:
  WaitRecord();
  ~WaitRecord();
  WaitRecord(const WaitRecord&) = delete;
  WaitRecord& operator=(const WaitRecord&) = delete;

 private:
  page::Page* const page_;
};

// As long as it lives, this process waits in init_process_group for the other ranks. The agent's --hang-note
// considers that; --hang-timeout does not, unless there is a WaitRecord too.
class FormingRecord {
 public:
  FormingRecord();
  ~FormingRecord();
  FormingRecord(const FormingRecord&) = delete;
  FormingRecord& operator=(const FormingRecord&) = delete;

 private:
  page::Page* const page_;
};

// As long as it lives, a thread waits for this key of a store. If several threads do, one of the keys is
// shown. The agent's --hang-note considers such waits; --hang-timeout does not.
class KeyWaitRecord {
 public:
  explicit KeyWaitRecord(std::string_view key);
  ~KeyWaitRecord();
  KeyWaitRecord(const KeyWaitRecord&) = delete;
  KeyWaitRecord& operator=(const KeyWaitRecord&) = delete;

 private:
  page::Page* page_;  // nullptr: another thread's key is shown
};

// As long as it lives, a thread waits for the answer to a remote call. The agent's --hang-note considers such
// waits; --hang-timeout does not.
class AnswerWaitRecord {
 public:
  AnswerWaitRecord();
  ~AnswerWaitRecord();
  AnswerWaitRecord(const AnswerWaitRecord&) = delete;
  AnswerWaitRecord& operator=(const AnswerWaitRecord&) = delete;

 private:
  page::Page* const page_;
};

// A program has polled a message that has not completed. Long polling counts as waiting.
void record_poll();

// A connection with this rank of the default group has been made, by this socket of TCP. A socket that was
// recorded before is not recorded again.
void record_link(int rank, int socket);

// The calling thread's own: where it calls the operations that it begins from now on, a number that
// Recorder::add_call_site has returned; 0: not known.
std::uint32_t& thread_call_site();

// The process's page. Thread-safe.
class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Maps the page, if the file is one and no other living process owns it; later calls only update this
  // process's rank. A forked child does not use its parent's page.
  void open(const std::string& path, int rank, int world_size);

  // `identity` distinguishes the group from every other one of the job, and is equal on all members; `ranks`
  // are the members' in the default group.
  struct Description {
    std::string_view identity;
    std::string_view name;
    std::string_view backend;
    int rank;
    std::span<const int> ranks;
  };
  // Records nothing if there is no page, or no room in it.
  GroupRecorder add(const Description& description);
  // The process destroys its groups while an exception unwinds it.
  void leave_in_exception();
  // None: there is none, or it is another process's.
  page::Page* page();
  void add_link(int rank, std::uint64_t inode);
  // A line of the program. Its number, or 0 without a page. The latest page::max_call_sites are kept.
  std::uint32_t add_call_site(std::string_view file, std::uint32_t line, std::string_view function);

 private:
  page::Group* place();

  std::mutex mutex_;
  page::Page* page_ = nullptr;  // protected by mutex_, as the next one
  std::uint32_t last_id_ = 0;
  std::size_t links_ = 0;  // written in all
  std::uint32_t call_sites_ = 0;
};

// This process's.
Recorder& recorder();

}  // namespace dlaunch::internal
