#include "agent/node/agent_link.h"

#include <utility>

namespace dlaunch::agent {
namespace {

LossKind loss_kind(CloseKind kind) {
  switch (kind) {
    case CloseKind::closed_by_peer:
      return LossKind::closed;
    case CloseKind::timed_out:
    case CloseKind::unreachable:
      return LossKind::silent;
    case CloseKind::rejected:
    case CloseKind::failed:
      return LossKind::cut;
    case CloseKind::reset:
    case CloseKind::refused:
      break;
  }
  return LossKind::broken;
}

Loss loss_of(const ConnectionEnd& end) {
  return {loss_kind(end.kind), end.reason.why.empty() ? end.reason.message() : end.reason.why};
}

}  // namespace

CoordinatorLink::CoordinatorLink(Network& network, MakeHandshake make_handshake, Deliver deliver)
    : network_(network), make_handshake_(std::move(make_handshake)), deliver_(std::move(deliver)) {}

void CoordinatorLink::dial(const Address& address, TimePoint deadline) {
  reader_ = FrameReader::from_coordinator();
  conn_ = network_.connect(address, deadline, *this);
}

void CoordinatorLink::send(const Message& message) { network_.send(conn_, as_byte_span(encode(message))); }

void CoordinatorLink::close() { network_.close(std::exchange(conn_, {})); }

void CoordinatorLink::on_connected(ConnId conn) {
  network_.send(conn, as_byte_span(greeting));
  handshake_ = make_handshake_();
  if (!handshake_.is_needed()) return deliver({LinkUp{}});
  send(handshake_.hello());
  deliver({});
}

void CoordinatorLink::on_received(ConnId conn, ByteSpan bytes) {
  reader_.append(bytes);
  Events events;
  while (true) {
    auto message = reader_.next();
    if (!message) {
      network_.close(conn);
      conn_ = {};
      events.emplace_back(LinkDown{{LossKind::cut, message.error().message()}});
      break;
    }
    if (!*message) break;
    take(std::move(**message), events);
  }
  deliver(std::move(events));
}

void CoordinatorLink::on_closed(ConnId, const ConnectionEnd& end) {
  conn_ = {};
  deliver({LinkDown{loss_of(end)}});
}

void CoordinatorLink::take(Message message, Events& events) {
  if (const auto* challenge = std::get_if<Challenge>(&message)) {
    answer(*challenge, events);
  } else if (auto* refused = std::get_if<Refused>(&message)) {
    take_refusal(std::move(*refused), events);
  } else {
    events.emplace_back(FromCoordinator{std::move(message)});
  }
}

void CoordinatorLink::take_refusal(Refused refused, Events& events) {
  if (handshake_.is_needed()) events.emplace_back(LinkUp{});  // unless it is there already
  if (refused.why == bare_refusal) refused.why = explain_bare_refusal(handshake_.is_needed());
  events.emplace_back(FromCoordinator{std::move(refused)});
}

void CoordinatorLink::answer(const Challenge& challenge, Events& events) {
  auto proof = handshake_.answer(challenge);
  events.emplace_back(LinkUp{});
  if (proof) {
    send(*proof);
  } else {
    events.emplace_back(FromCoordinator{Refused{proof.error().why}});
  }
}

// May destroy this object.
void CoordinatorLink::deliver(Events events) {
  const Deliver copy = deliver_;
  copy(std::move(events));
}

MemberLink::MemberLink(Config config, Peer peer, CoordinatorHandshake handshake)
    : config_(std::move(config)), peer_(std::move(peer)), handshake_(std::move(handshake)) {}

void MemberLink::send(const Message& message) {
  config_.network.send(peer_.conn, as_byte_span(encode(message)));
}

void MemberLink::close() { config_.network.close(peer_.conn); }

void MemberLink::report_proof() const {
  if (handshake_.is_done() && config_.on_proved) config_.on_proved(peer_.address.host);
}

void MemberLink::on_received(ConnId, ByteSpan bytes) {
  reader_.append(bytes);
  Events events;
  while (true) {
    auto message = reader_.next();
    if (!message) return refuse(message.error(), std::move(events));
    if (!*message) break;
    spoken_ = true;
    const auto taken = take(std::move(**message), events);
    if (!taken) return refuse(taken.error(), std::move(events));
  }
  const auto copy = config_.deliver;  // this object may be destroyed meanwhile
  copy(std::move(events), false);
}

void MemberLink::on_closed(ConnId, const ConnectionEnd& closed) { end({peer_.id, loss_of(closed)}, {}); }

// An error is the reason to refuse the member.
Result<void> MemberLink::take(Message message, Events& events) {
  if (handshake_.is_done()) {
    if (std::holds_alternative<Hello>(message)) {
      return Error{ErrorKind::refused, "", "",
                   "this job has no secret, but that agent was given one (--token-file, DLAUNCH_TOKEN)",
                   "start dlaunch without --token-file and DLAUNCH_TOKEN"};
    }
    events.emplace_back(FromMember{peer_.id, std::move(message), peer_.address.host});
    return {};
  }
  auto reply = handshake_.hear(message);
  if (!reply) return std::move(reply).error();
  if (*reply) send(**reply);
  report_proof();
  return {};
}

// Destroys this object.
void MemberLink::refuse(const Error& error, Events events) {
  const std::string& why = error.why;
  config_.reporter.report(
      {Severity::warning, "refused an agent at " + to_string(peer_.address) + ": " + why});
  const std::string host = " on host " + peer_.address.host;
  events.emplace_back(
      AgentRefused{"an agent at " + peer_.address.host, why, error.hint.empty() ? "" : error.hint + host});
  send(Refused{handshake_.is_done() ? why : bare_refusal});
  end({peer_.id, {LossKind::cut, why}}, std::move(events));
}

// Destroys this object.
void MemberLink::end(MemberLost lost, Events events) {
  events.emplace_back(std::move(lost));
  const auto copy = config_.deliver;
  copy(std::move(events), true);
}

}  // namespace dlaunch::agent
