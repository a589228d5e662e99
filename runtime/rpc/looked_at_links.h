// The connections on which something has come a moment ago. A thread that would sleep looks at them for a
// while first, so that nobody need wake it: to wake a thread takes longer than a call, above all if its
// processor has nothing else to do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/base/function_ref.h"
#include "runtime/rpc/link.h"

namespace dlaunch::internal {

// Any thread.
class LookedAtLinks {
 public:
  // Sockets at most: to look at one takes a system call.
  static constexpr std::size_t most_sockets = 4;

  // Does nothing if it is one socket too many.
  void add(const std::shared_ptr<Link>& link);
  void remove(const std::shared_ptr<Link>& link);

  // Reads and writes the connection.
  using Attend = FunctionRef<void(const std::shared_ptr<Link>& link)>;
  // Looks until nothing has come for a while, or the thread is_needed() for something else. From then on the
  // other sides wake a thread by the epoll, unless the thread comes_back() within a moment. Returns at once
  // if another thread looks.
  void look(const FunctionRef<bool()>& is_needed, const FunctionRef<bool()>& comes_back,
            const Attend& attend);
  // The thread that has driven the connection comes back to it within a moment.
  void leave(const std::shared_ptr<Link>& link);
  // Called every moment. If a thread that was to come back has not since the last call, the other sides wake
  // one by the epoll from now on. Returns whether it is to be called again within a moment.
  bool relieve(const Attend& attend);

 private:
  using Links = std::vector<std::shared_ptr<Link>>;
  [[nodiscard]] Links all() const;
  static void stop_looking(const Links& links, const Attend& attend);
  [[nodiscard]] Links take_those_left(bool& others_remain);

  std::atomic<bool> is_looking_ = false;
  std::atomic<std::uint64_t> looks_ = 0;  // ever
  std::mutex looking_mutex_;              // of the one thread that looks
  mutable std::mutex mutex_;
  // protected by mutex_
  Links links_;
  Links left_;
  std::uint64_t looks_before_ = 0;  // for relieve()
};

}  // namespace dlaunch::internal
