// Messages between two ranks. A synchronous one is awaited by its caller; the asynchronous ones of a group by
// one thread, which ends when there are none for a second.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "dlaunch/backend.h"
#include "runtime/backends/mpi/mpi_group.h"

namespace dlaunch::internal {

// Any thread may call the members.
class MpiMessages {
 public:
  explicit MpiMessages(MpiGroup& group) : group_(group) {}
  ~MpiMessages();  // REQUIRES: the group is broken, or drain() has returned true
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  Work send(const Tensor& tensor, int dst, Tag tag, const Operation& operation);
  Work recv(const Tensor& tensor, int src, Tag tag, const Operation& operation);
  // Returns true when all have completed; false: the deadline has passed.
  bool drain(Deadline deadline);

 private:
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    bool is_send = true;
    int peer = any_source;
    std::size_t bytes = 0;
    Deadline deadline;
    WorkSource source = {};
    MpiUse use = {};
  };

  [[nodiscard]] int mpi_tag(Tag tag) const;
  Work start(std::list<Message> one, bool async);
  bool has_ended(Message& message);
  void finish(Message& message, const MPI_Status& status) const;
  void work();

  MpiGroup& group_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable idle_;
  // protected by mutex_
  std::list<Message> new_ones_;
  std::size_t unfinished_ = 0;
  bool is_running_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace dlaunch::internal
