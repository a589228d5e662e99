// Messages between two ranks. A synchronous one is awaited by its caller; the asynchronous ones of a group by
// one thread, which ends when there are none for a second.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/backends/mpi/mpi_group.h"
#include "runtime/base/ended_receives.h"

namespace dlaunch::internal {

// Any thread may call the members.
class MpiMessages {
 public:
  explicit MpiMessages(MpiGroup& group)
      : group_(group), received_from_(ended_receives(std::min(group.size(), most_ended_receives))) {}
  ~MpiMessages();  // REQUIRES: the group is broken, or drain() has returned true
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  Work send(const Tensor& tensor, int dst, Tag tag, const Operation& operation);
  Work recv(const Tensor& tensor, int src, Tag tag, const Operation& operation);
  // Returns true when all have completed; false: the deadline has passed.
  bool drain(Deadline deadline);

 private:
  struct Message {
    bool is_send;
    int peer;
    std::size_t bytes;
    Deadline deadline;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Asynchronous : Message {
    explicit Asynchronous(const Message& message) : Message(message) {}
    const WorkSource source;
    const MpiUse use;
  };

  [[nodiscard]] int mpi_tag(Tag tag) const;
  Work await(Message& message);
  Work await_in_thread(const Message& message);
  bool has_ended(Asynchronous& message);
  // Throws if the message has not the length that the receive takes.
  static void check_length(const Message& message, const MPI_Status& status);
  void work();

  MpiGroup& group_;
  // Of synchronous receives, by the source; of the first ranks, since each takes memory.
  const std::vector<Work> received_from_;
  static constexpr int most_ended_receives = 256;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable idle_;
  // protected by mutex_
  std::list<Asynchronous> new_ones_;
  std::size_t unfinished_ = 0;
  bool is_running_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace dlaunch::internal
