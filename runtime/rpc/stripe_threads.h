// The threads that copy stripes between their connections and memory. They are others than those that carry
// messages and run functions, so that long messages delay neither, and several of them copy at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "dlaunch/backend.h"
#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

// Any thread.
class StripeThreads : public std::enable_shared_from_this<StripeThreads> {
 public:
  class Connection {
   public:
    virtual ~Connection() = default;
    // Something has happened there, which is not reported again before watch() is called. Does not block, and
    // throws nothing. Two threads may call it.
    virtual void on_event() = 0;
  };

  // Throws DistBackendError.
  StripeThreads();
  StripeThreads(const StripeThreads&) = delete;
  StripeThreads& operator=(const StripeThreads&) = delete;

  // Keeps the connection from now on; returns its token. The first one starts the threads: as many as there
  // are processors, and a few at most. Throws DistBackendError if not one can be started.
  std::uint64_t add(int fd, std::shared_ptr<Connection> connection);
  // Reports the next event: bytes, and room if it is asked for.
  void watch(int fd, std::uint64_t token, bool for_room);
  void remove(std::uint64_t token);

  // Returns when all threads have ended; false: at the deadline.
  bool stop(Deadline deadline);

 private:
  static constexpr std::size_t most_threads = 4;
  static constexpr std::uint64_t own_token = 0;

  void start();
  void run();
  std::shared_ptr<Connection> find(std::uint64_t token);

  const Descriptor poll_;
  const Descriptor wakeup_;

  std::mutex mutex_;
  std::condition_variable ended_;
  // protected by mutex_
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // by token
  std::uint64_t last_token_ = own_token;
  std::size_t threads_ = 0;
  bool stopping_ = false;
};

}  // namespace dlaunch::internal
