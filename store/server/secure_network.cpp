#include "store/server/secure_network.h"

#include <string>
#include <utility>

namespace dlaunch::store {

// The caller of its handler holds it, since the handler may close it meanwhile.
class SecureNetwork::Conn final : public ConnectionHandler,
                                  public TimerHandler,
                                  public std::enable_shared_from_this<Conn> {
 public:
  Conn(SecureNetwork& network, std::unique_ptr<SecureSession> session, ConnectionHandler& handler)
      : network_(network), session_(std::move(session)), handler_(&handler) {}

  // Of a client: its id, and the deadline of the handshake.
  void await(ConnId conn, Address address, TimePoint deadline) {
    conn_ = conn;
    address_ = std::move(address);
    deadline_ = deadline;
    is_client_ = true;
  }
  void accept(ConnId conn) { conn_ = conn; }
  void set_handler(ConnectionHandler& handler) { handler_ = &handler; }
  // Reports nothing any more.
  void drop() {
    is_dropped_ = true;
    network_.timers_.disarm(timer_);
  }

  void send(ByteSpan bytes) {
    if (!session_->is_up()) {
      early_.append(as_text(bytes));
      return;
    }
    std::string wire;
    session_->seal(bytes, wire);
    network_.inner_.send(conn_, as_byte_span(wire));
  }

  void on_connected(ConnId conn) override {
    timer_ = network_.timers_.arm(deadline_, *this);
    network_.inner_.send(conn, as_byte_span(session_->begin()));
  }

  void on_received(ConnId conn, ByteSpan bytes) override {
    const auto self = shared_from_this();
    const bool was_up = session_->is_up();
    std::string plain;
    std::string wire;
    const auto taken = session_->take(bytes, plain, wire);
    network_.inner_.send(conn, as_byte_span(wire));
    if (session_->is_up() && !was_up) come_up();
    if (!plain.empty() && !is_dropped_) handler_->on_received(conn, as_byte_span(plain));
    if (!taken && !is_dropped_) fail(CloseKind::rejected, taken.error().kind, taken.error().why);
  }
  void on_drained(ConnId conn) override {
    const auto self = shared_from_this();
    handler_->on_drained(conn);
  }
  void on_closed(ConnId conn, const ConnectionEnd& end) override {
    const auto self = shared_from_this();
    ConnectionEnd known = end;
    if (is_client_ && !session_->is_up() && !end.reason.why.empty() && timer_)
      known.reason.why += " during the TLS handshake (was it started with --tls, too?)";
    forget();
    handler_->on_closed(conn, known);
  }
  void on_timer(TimerId) override {
    const auto self = shared_from_this();
    timer_ = {};
    fail(CloseKind::timed_out, ErrorKind::timeout,
         "the TLS handshake took too long (was it started with --tls, too?)");
  }

 private:
  void come_up() {
    network_.timers_.disarm(std::exchange(timer_, {}));
    if (!early_.empty()) send(as_byte_span(std::exchange(early_, {})));
    if (is_client_) handler_->on_connected(conn_);
  }
  void fail(CloseKind how, ErrorKind kind, const std::string& why) {
    network_.inner_.close(conn_);
    forget();
    handler_->on_closed(conn_,
                        {how, is_client_ ? Error{kind, "cannot connect to", to_string(address_), why, ""}
                                         : Error{kind, "lost a TLS connection", "", why, ""}});
  }
  void forget() {
    drop();
    network_.conns_.erase(conn_);
  }

  SecureNetwork& network_;
  std::unique_ptr<SecureSession> session_;
  ConnectionHandler* handler_;
  ConnId conn_;
  Address address_;
  TimePoint deadline_;
  TimerId timer_;  // of a client, during the handshake
  std::string early_;
  bool is_client_ = false;
  bool is_dropped_ = false;
};

SecureNetwork::~SecureNetwork() {
  for (const auto& [conn, one] : conns_) {
    one->drop();
    inner_.close(conn);
  }
}

SecureNetwork::Conn* SecureNetwork::find(ConnId conn) {
  const auto found = conns_.find(conn);
  return found == conns_.end() ? nullptr : found->second.get();
}

void SecureNetwork::secure(ConnId conn, ByteSpan bytes, ConnectionHandler& handler) {
  const auto secured = std::make_shared<Conn>(*this, sessions_.server(), handler);
  secured->accept(conn);
  conns_[conn] = secured;
  inner_.hand_over(conn, *secured);
  secured->on_received(conn, bytes);
}

ConnId SecureNetwork::connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) {
  if (!sessions_.client) return inner_.connect(address, deadline, handler);
  const auto secured = std::make_shared<Conn>(*this, sessions_.client(), handler);
  const ConnId conn = inner_.connect(address, deadline, *secured);
  secured->await(conn, address, deadline);
  conns_[conn] = secured;
  return conn;
}

void SecureNetwork::hand_over(ConnId conn, ConnectionHandler& handler) {
  if (Conn* secured = find(conn)) return secured->set_handler(handler);
  inner_.hand_over(conn, handler);
}

void SecureNetwork::send(ConnId conn, ByteSpan bytes) {
  if (bytes.empty()) return;
  if (Conn* secured = find(conn)) return secured->send(bytes);
  inner_.send(conn, bytes);
}

void SecureNetwork::send_shared(ConnId conn, const SharedBytes& bytes) {
  if (find(conn) != nullptr) return send(conn, bytes);
  inner_.send_shared(conn, bytes);
}

void SecureNetwork::close(ConnId conn) {
  forget(conn);
  inner_.close(conn);
}

void SecureNetwork::abort(ConnId conn) {
  forget(conn);
  inner_.abort(conn);
}

void SecureNetwork::forget(ConnId conn) {
  if (const auto found = conns_.find(conn); found != conns_.end()) {
    const std::shared_ptr<Conn> secured = std::move(found->second);
    conns_.erase(found);
    secured->drop();
  }
}

}  // namespace dlaunch::store
