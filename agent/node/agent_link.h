// The two ends of a connection between agents: bytes become events of the state machines here, after both
// ends have proved that they know the job's secret, if it has one.
//
// All objects belong to the loop's thread. The events of one call of the network are delivered together, at
// the end of the call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/control/coordinator.h"
#include "agent/control/handshake.h"
#include "agent/control/member.h"
#include "agent/control/messages.h"
#include "agent/node/reporter.h"
#include "store/base/io.h"

namespace dlaunch::agent {

// This node's connection to a coordinator elsewhere; may be dialled again.
class CoordinatorLink final : public ConnectionHandler {
 public:
  using MakeHandshake = std::function<MemberHandshake()>;  // with a new nonce for every connection
  using Deliver = std::function<void(std::vector<MemberEvent> events)>;  // may destroy this object

  // `network` must outlive this object. It does not close its connection when it is destroyed.
  CoordinatorLink(Network& network, MakeHandshake make_handshake, Deliver deliver);

  void dial(const Address& address, TimePoint deadline);
  void send(const Message& message);
  void close();

  void on_connected(ConnId conn) override;
  void on_received(ConnId conn, ByteSpan bytes) override;
  void on_closed(ConnId conn, const ConnectionEnd& end) override;

 private:
  using Events = std::vector<MemberEvent>;

  void take(Message message, Events& events);
  void take_refusal(Refused refused, Events& events);
  void answer(const Challenge& challenge, Events& events);
  void deliver(Events events);

  Network& network_;
  MakeHandshake make_handshake_;
  Deliver deliver_;
  ConnId conn_;
  FrameReader reader_ = FrameReader::from_coordinator();
  MemberHandshake handshake_{"", ""};
};

// The coordinator's end of the connection of one member.
class MemberLink final : public ConnectionHandler {
 public:
  struct Config {
    Network& network;  // not owned; both must outlive the link
    Reporter& reporter;
    // The agent at this address has proved the secret; none if the job has no secret.
    std::function<void(const std::string& host)> on_proved;
    // `over`: the connection has ended, and the receiver destroys this object.
    std::function<void(std::vector<CoordinatorEvent> events, bool over)> deliver;
  };
  struct Peer {
    MemberId id = 0;
    ConnId conn;
    Address address;
    TimePoint came;
  };

  MemberLink(Config config, Peer peer, CoordinatorHandshake handshake);

  void send(const Message& message);
  void close();
  // Calls on_proved, if the member has proved the secret.
  void report_proof() const;
  // The member has sent a whole message and may take part: the coordinator may know of it.
  [[nodiscard]] bool is_proven() const { return spoken_ && handshake_.is_done(); }
  [[nodiscard]] TimePoint came() const { return peer_.came; }

  void on_received(ConnId conn, ByteSpan bytes) override;
  void on_closed(ConnId conn, const ConnectionEnd& end) override;

 private:
  using Events = std::vector<CoordinatorEvent>;

  [[nodiscard]] Result<void> take(Message message, Events& events);
  void refuse(const Error& error, Events events);
  void end(MemberLost lost, Events events);

  Config config_;
  Peer peer_;
  CoordinatorHandshake handshake_;
  FrameReader reader_ = FrameReader::from_member();
  bool spoken_ = false;  // a whole message has come
};

}  // namespace dlaunch::agent
