// Asks the coordinator at an endpoint over a separate connection whether it leads the job. The node stays a
// member of the coordinator to which it is connected, if any.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "agent/control/handshake.h"
#include "agent/control/member.h"
#include "agent/control/messages.h"
#include "store/base/io.h"

namespace dlaunch::agent {

// One probe. Belongs to the loop's thread.
class EndpointProbe final : public ConnectionHandler {
 public:
  // `answered` is called once, unless this object is destroyed before; it may destroy it.
  using Answered = std::function<void(const EndpointProbed&)>;

  // `network` must outlive this object, which ends its connection when it is destroyed.
  EndpointProbe(Network& network, std::string job_id, MemberHandshake handshake, Answered answered);
  ~EndpointProbe() override;
  EndpointProbe(const EndpointProbe&) = delete;
  EndpointProbe& operator=(const EndpointProbe&) = delete;

  // Once. `deadline` is for the connection; the caller decides how long it waits for the answer.
  void ask(std::size_t endpoint, const Address& address, TimePoint deadline);

  void on_connected(ConnId conn) override;
  void on_received(ConnId conn, ByteSpan bytes) override;
  void on_closed(ConnId conn, const ConnectionEnd& end) override;

 private:
  void send(const Message& message);
  void end(EndpointProbed answer);

  Network& network_;
  std::string job_id_;
  MemberHandshake handshake_;
  Answered answered_;
  std::size_t endpoint_ = 0;
  ConnId conn_;
  FrameReader reader_ = FrameReader::from_coordinator();
};

}  // namespace dlaunch::agent
