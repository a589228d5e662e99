// Point-to-point messages among the ranks of a group that share memory: as Messenger, through rings.
//
// A call that waits handles what arrives itself, until its message has come: no other thread takes part in a
// message between two programs that wait for it. A thread of the group handles what arrives while
// asynchronous operations are under way.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "dlaunch/tensor.h"
#include "dlaunch/transport.h"
#include "dlaunch/work.h"
#include "runtime/point_to_point/memory_protocol.h"
#include "runtime/point_to_point/thread_on_demand.h"
#include "runtime/shared_memory/message_rings.h"

namespace dlaunch::internal {

// Any thread may call.
class MemoryMessenger {
 public:
  // `transport` reports the loss and the departure of ranks; whoever changes that calls rings.interrupt().
  // REQUIRES: both outlive this object.
  MemoryMessenger(Transport& transport, MessageRings& rings);
  // Ends the operations that still run with an error.
  ~MemoryMessenger();
  MemoryMessenger(const MemoryMessenger&) = delete;
  MemoryMessenger& operator=(const MemoryMessenger&) = delete;

  // As those of Messenger. Not async: the Work has ended when the call returns.
  Work send(const Tensor& tensor, int dst, Tag tag, Deadline deadline, bool async);
  Work recv(const Tensor& tensor, int src, Tag tag, Deadline deadline, bool async);
  // A receive that another messenger may take. Returns at once.
  void post(const PostedReceive& receive);
  void flush(Deadline deadline) noexcept;
  void drain(Deadline deadline) noexcept;

 private:
  // Does what the protocol leaves to be done without the lock, also after an error.
  class Settling {
   public:
    explicit Settling(MemoryMessenger& here) : here_(here) {}
    ~Settling() { here_.settle(outcome); }
    Settling(const Settling&) = delete;
    Settling& operator=(const Settling&) = delete;
    MemoryProtocol::Outcome outcome;

   private:
    MemoryMessenger& here_;
  };
  // As long as one exists, the thread leaves the rings to the calls that wait.
  class Polling {
   public:
    explicit Polling(MemoryMessenger& here) : here_(here) { ++here_.pollers_; }
    ~Polling();
    Polling(const Polling&) = delete;
    Polling& operator=(const Polling&) = delete;

   private:
    MemoryMessenger& here_;
  };

  static constexpr std::chrono::milliseconds idle_limit{1000};
  // A call that waits may copy a large message meanwhile.
  static constexpr std::chrono::milliseconds longest_pause{10};

  Work finish(const WorkSource& source, bool async);
  void settle(MemoryProtocol::Outcome& outcome);
  void read_all();
  void wait_for(const Work& work);
  bool spin_for(const Work& work);
  bool yield_for(const Work& work);
  bool spin_for_next(const Tensor& tensor, int src, Tag tag);
  bool receive_next(const Tensor& tensor, int src, Tag tag);
  void poll();
  [[nodiscard]] bool has_work() const { return rings_.has_records() || rings_.has_room(); }
  void ensure_thread(bool async, MemoryProtocol::Outcome& outcome);
  void serve();
  [[nodiscard]] Deadline next_deadline();

  Transport& transport_;
  MessageRings& rings_;
  const std::vector<Work> received_from_;  // by rank: of a receive that has ended

  std::atomic<int> pollers_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;  // pollers_ has become 0, or closing_
  // protected by mutex_
  MemoryProtocol protocol_;
  std::deque<MemoryProtocol::DirectRead> reads_;  // for the thread, or a call that waits
  bool closing_ = false;

  ThreadOnDemand thread_{[this] { serve(); }};  // last: it uses all of the above
};

}  // namespace dlaunch::internal
