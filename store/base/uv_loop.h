// The outside world (io.h) over libuv: one thread, one loop. One of the two sources that include <uv.h>.
#pragma once

#include <memory>

#include "store/base/io.h"

struct uv_loop_s;

namespace dlaunch {

class UvLoop final : public Clock, public Timers, public Network, public Random {
 public:
  UvLoop();
  ~UvLoop() override;  // closes every handle it made and lets libuv finish them
  UvLoop(const UvLoop&) = delete;
  UvLoop& operator=(const UvLoop&) = delete;

  // Runs until stop() is called or nothing is left that could happen.
  void run();
  void stop();

  TimePoint now() const override;
  TimerId arm(TimePoint at, TimerHandler& handler) override;
  void disarm(TimerId timer) override;
  Result<Listening> listen(const Address& address, ListenerHandler& handler) override;
  void unlisten(ListenerId listener) override;
  ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) override;
  void send(ConnId conn, ByteSpan bytes) override;
  std::size_t unsent(ConnId conn) const override;
  void pause_reading(ConnId conn, bool paused) override;
  void close(ConnId conn) override;
  std::uint64_t next() override;

  // For the agent's process, pipe and signal handles, which live on the same loop.
  uv_loop_s* native();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch
