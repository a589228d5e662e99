// The outside world (io.h) over libuv: one thread, one loop. Only this file and store/loop/uv_poller.h use
// libuv.
#pragma once

#include <functional>
#include <memory>

#include "store/base/io.h"

struct uv_loop_s;

namespace dlaunch::store {

class UvLoop final : public Clock, public Timers, public Network, public Random {
 public:
  // Throws std::system_error, as std::thread does, if the system has no descriptors left.
  UvLoop();
  // Closes every handle that it made and lets libuv finish them; calls no handler any more. Waits for a name
  // lookup that is under way. REQUIRES: run() is not running, and uv_close was called for every handle that
  // others made on native().
  ~UvLoop() override;
  UvLoop(const UvLoop&) = delete;
  UvLoop& operator=(const UvLoop&) = delete;

  // Runs until stop() is called or no event is possible any more. After stop() the current turn is finished:
  // bytes sent in it still leave. A stop() before run() makes run() return at once.
  void run();
  void stop();

  // The one function that other threads may call: `work` runs later on the loop's thread, from its top level.
  // It does not keep run() from returning; work that run() did not reach is dropped.
  void post(std::function<void()> work);

  TimePoint now() const override;
  TimerId arm(TimePoint at, TimerHandler& handler) override;
  void disarm(TimerId timer) override;
  Result<Listening> listen(const Address& address, ListenerHandler& handler) override;
  Result<Listening> listen_on(int socket, ListenerHandler& handler) override;
  void unlisten(ListenerId listener) override;
  ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) override;
  void hand_over(ConnId conn, ConnectionHandler& handler) override;
  void send(ConnId conn, ByteSpan bytes) override;
  void send_shared(ConnId conn, const SharedBytes& bytes) override;
  std::size_t unsent(ConnId conn) const override;
  std::size_t unsent_memory(ConnId conn) const override;
  std::size_t unsent_memory() const override;
  void pause_reading(ConnId conn, bool paused) override;
  void close(ConnId conn) override;
  void abort(ConnId conn) override;
  void drop_remains() override;
  std::uint64_t next() override;

  // For the agent's process, pipe and signal handles, which live on the same loop.
  uv_loop_s* native();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::store
