#include "agent/node/endpoint_probe.h"

#include <utility>

namespace dlaunch::agent {

EndpointProbe::EndpointProbe(Network& network, std::string job_id, MemberHandshake handshake,
                             Answered answered)
    : network_(network),
      job_id_(std::move(job_id)),
      handshake_(std::move(handshake)),
      answered_(std::move(answered)) {}

EndpointProbe::~EndpointProbe() { network_.close(conn_); }

void EndpointProbe::ask(std::size_t endpoint, const Address& address, TimePoint deadline) {
  endpoint_ = endpoint;
  conn_ = network_.connect(address, deadline, *this);
}

void EndpointProbe::on_connected(ConnId conn) {
  network_.send(conn, as_byte_span(greeting));
  if (handshake_.is_needed()) {
    send(handshake_.hello());
  } else {
    send(Ask{job_id_});
  }
}

void EndpointProbe::on_received(ConnId, ByteSpan bytes) {
  reader_.append(bytes);
  while (answered_) {
    const auto message = reader_.next();
    if (!message) return end({});
    if (!*message) return;
    if (const auto* welcome = std::get_if<Welcome>(&**message))
      return end({endpoint_, true, welcome->leads, welcome->elsewhere});
    const auto* challenge = std::get_if<Challenge>(&**message);
    if (challenge == nullptr) return end({});
    const auto proof = handshake_.answer(*challenge);
    if (!proof) return end({});
    send(*proof);
    send(Ask{job_id_});
  }
}

void EndpointProbe::on_closed(ConnId, const ConnectionEnd&) {
  conn_ = {};
  end({});
}

void EndpointProbe::send(const Message& message) { network_.send(conn_, as_byte_span(encode(message))); }

// May destroy this object.
void EndpointProbe::end(EndpointProbed answer) {
  network_.close(std::exchange(conn_, {}));
  answer.endpoint = endpoint_;
  if (const Answered answered = std::exchange(answered_, nullptr)) answered(answer);
}

}  // namespace dlaunch::agent
