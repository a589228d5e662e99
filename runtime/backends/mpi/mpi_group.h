// The ranks of one group in MPI: its communicators, waits with deadlines, and notices about failures.
//
// MPI has no deadlines and need not notice that a rank has died. So every operation is a non-blocking one,
// and its thread asks MPI whether it has completed: without a pause for as long as MPI may be at work, then
// with pauses that grow to a millisecond, so that a rank that waits for a late one leaves the processor to
// those that compute. That is also all the progress that MPI makes. Meanwhile it asks the group's control
// plane whether a rank is lost. What MPI has begun it cannot give up: the memory of an operation that was
// given up stays MPI's until the process ends.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/backends/mpi/mpi_process.h"
#include "runtime/backends/mpi/mpi_scratch.h"

namespace dlaunch::internal {

// Bytes that MPI sends at once within a host, by its defaults; longer messages first ask the receiver. And
// the most pieces of that length in which a longer message goes all the same. More pieces of Open MPI's take
// twice as long between processors that share no cache, and half as long between others. All ranks have the
// same: they decide which algorithm is used, and into which messages it divides the data.
#if defined(OPEN_MPI)
inline constexpr std::size_t sent_at_once = 4000;
inline constexpr std::size_t most_pieces = 3;
#else
inline constexpr std::size_t sent_at_once = 8192;
inline constexpr std::size_t most_pieces = 8;
#endif

// What an operation hands to MPI. The next operation takes it over: no allocation for each.
struct MpiMemory {
  std::vector<MPI_Request> requests;
  std::vector<std::size_t> receives;  // bytes that each request must receive; MpiRequests::any: it is none
  std::vector<MpiScratch> scratch;
  std::unique_ptr<std::byte[]> short_scratch;
};

// Any thread may call the members.
class MpiGroup {
 public:
  // On every rank of the group at the same time. Throws DistBackendError, or what the store throws.
  explicit MpiGroup(const BackendContext& context);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] MPI_Comm collectives() const { return collectives_; }
  [[nodiscard]] MPI_Comm messages() const { return messages_; }
  [[nodiscard]] int largest_tag() const { return largest_tag_; }
  // Of the one operation that runs.
  [[nodiscard]] MpiMemory& memory() { return memory_; }

  // Returns when all requests have completed; then they are null and the statuses set. `bytes`: that they
  // move on this rank. Throws DistBackendError, and DistNetworkError if the deadline passes or the group is
  // broken.
  void complete(std::span<MPI_Request> requests, std::span<MPI_Status> statuses, Deadline deadline,
                std::size_t bytes, const char* call);
  // The same in two steps. True: they have completed, within the time that MPI needs if no rank is late.
  // False: call complete_late().
  bool complete_soon(std::span<MPI_Request> requests, std::span<MPI_Status> statuses, Deadline deadline,
                     std::size_t bytes, const char* call);
  void complete_late(std::span<MPI_Request> requests, std::span<MPI_Status> statuses, Deadline deadline,
                     const char* call);

  // Throws if the group is broken here, another rank has sent notice that it is, or a rank is lost.
  void check();
  // Before a message, which may not wait for another rank: asks MPI for notices only in some calls.
  void check_now_and_then();
  [[nodiscard]] std::vector<int> departed();

  // The group is broken from now on, and the other ranks get notice of it. The first reason counts.
  void break_up(const std::string& reason) noexcept;
  // This rank leaves in order.
  void say_goodbye() noexcept;

 private:
  enum class NoticeKind : int { failure, goodbye };
  struct Notice {
    NoticeKind kind;
    char text[508];
  };

  void make_communicators(const BackendContext& context);
  void receive_notices();
  void post_notice_receive();
  void take_notice(int from);
  void send_notices(NoticeKind kind, const std::string& text);
  bool is_complete(std::span<MPI_Request> requests, std::span<MPI_Status> statuses, const char* call);
  void fail_if_broken();
  [[nodiscard]] DistNetworkError late_error() const;

  const std::shared_ptr<Backend> control_plane_;  // null: none
  int rank_;
  int size_;
  int largest_tag_ = 0;
  bool is_crowded_ = false;  // there are more ranks than processors here
  MPI_Comm collectives_ = MPI_COMM_NULL;
  MPI_Comm messages_ = MPI_COMM_NULL;
  MpiMemory memory_;

  std::atomic<unsigned> messages_begun_ = 0;
  std::atomic<bool> is_broken_ = false;
  std::mutex mutex_;
  std::condition_variable broken_;
  // protected by mutex_
  std::string reason_;
  int culprit_ = -1;  // the rank whose notice it was
  std::vector<int> departed_;

  std::mutex notices_mutex_;  // not held while mutex_ is
  // protected by notices_mutex_
  std::unique_ptr<Notice> incoming_;
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  std::unique_ptr<Notice> outgoing_;
  std::vector<MPI_Request> outgoing_requests_;
};

// One operation's requests and memory. If it ends before MPI has completed them, the memory is MPI's for
// ever. REQUIRES: the group has no other one at the same time.
class MpiRequests {
 public:
  // `bytes`: that the operation moves on this rank.
  MpiRequests(MpiGroup& group, Deadline deadline, std::size_t bytes)
      : group_(group), memory_(group.memory()), deadline_(deadline), bytes_(bytes) {}
  ~MpiRequests();
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;

  [[nodiscard]] MpiGroup& group() { return group_; }
  // For the next call, which fills it in.
  MPI_Request* add() { return add(any); }
  // A message within the operation, which is in order with those of earlier ones. Both sides give its length.
  // If MPI would ask the receiver before it sends so much, and there are few pieces that it sends at once,
  // these are sent.
  void post_send(std::span<const std::byte> bytes, int to);
  void post_recv(std::span<std::byte> bytes, int from);
  // Memory that lives as long as MPI may use it.
  std::span<std::byte> scratch(std::size_t bytes);
  // Waits for all that were added. `call`: for messages.
  void complete(const char* call);

 private:
  MPI_Request* add(std::size_t received);

  MpiGroup& group_;
  MpiMemory& memory_;
  const Deadline deadline_;
  const std::size_t bytes_;
  const MpiUse use_;
  static constexpr std::size_t any = ~std::size_t{0};
  static constexpr std::size_t short_scratch_size = 4096;
  void check_lengths(std::span<const MPI_Status> statuses) const;
  std::size_t short_scratch_used_ = 0;
};

}  // namespace dlaunch::internal
