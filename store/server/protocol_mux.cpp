#include "store/server/protocol_mux.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "store/protocol/wire.h"

namespace dlaunch::store {
namespace {

constexpr std::size_t http_head_limit = 8 << 10;
constexpr std::size_t remembered_rejections = 256;
constexpr std::byte tls_first_byte{0x16};  // of a handshake record; no store request begins with it

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "See Status";
  }
}

std::string to_wire(const HttpAnswer& answer, bool with_body) {
  std::string text = "HTTP/1.1 ";
  text.append(std::to_string(answer.status)).append(" ").append(reason_of(answer.status));
  text.append("\r\nContent-Type: ").append(answer.type);
  text.append("\r\nContent-Length: ").append(std::to_string(answer.body.size()));
  // Whatever a page shows, a browser runs no script in it but the page's own, and sends nothing elsewhere.
  if (answer.type.starts_with("text/html"))
    text.append(
        "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer");
  if (answer.status == 401) text.append("\r\nWWW-Authenticate: Bearer");
  text.append("\r\nConnection: close\r\n\r\n");
  if (with_body) text += answer.body;
  return text;
}

}  // namespace

void RejectionLog::rejected(const Address& peer, std::string_view why) {
  if (full_ || !report_) return;
  std::string key = peer.host;
  key.append(" ").append(why);
  if (!logged_.insert(std::move(key)).second) return;
  report_("rejected " + to_string(peer) + ": " + std::string(why));
  if (logged_.size() < remembered_rejections) return;
  full_ = true;
  logged_.clear();
  report_("too many rejections: further ones are not reported");
}

ConnectionHandler& ProtocolMux::on_accepted(ConnId conn, const Address& peer) {
  pending_.emplace(conn, PendingConnection{peer, round_, clock_.now(), ++last_number_});
  ++pending_of_host_[peer.host];
  watch_pending();
  enforce_limits(peer.host);
  return *this;
}

void ProtocolMux::on_received(ConnId conn, ByteSpan bytes) {
  PendingConnection& pending = pending_.at(conn);
  if (!pending.http.empty()) return read_http(conn, pending, bytes);
  if (pending.proof) return take_proof(conn, pending, bytes);
  identify(conn, pending, bytes);
}

void ProtocolMux::identify(ConnId conn, PendingConnection& pending, ByteSpan bytes) {
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  if (first <= last_request_byte) return dispatch_to_store(conn, pending, bytes);
  if (bytes[0] == tls_first_byte) {
    if (secure_ == nullptr) return reject(conn, "it uses TLS, but this job does not (--tls)");
    if (is_secure(conn)) return reject(conn, "it uses TLS within TLS");
    return secure_->secure(conn, bytes, *this);
  }
  if (bytes[0] == key_first_byte) {
    if (must_be_secure(conn)) return reject(conn, "it does not use TLS (--tls)");
    if (!access_.has_key()) return reject(conn, "it sent a proof of a secret, but this store has no secret");
    pending.proof.emplace(access_.key().key, access_.key().draw_nonce());
    return take_proof(conn, pending, bytes);
  }
  if (bytes[0] == agent_first_byte) {
    if (agents_ == nullptr) return reject(conn, "it is an agent, but this port has no rendezvous");
    if (must_be_secure(conn)) return reject(conn, "it is an agent that does not use TLS (--tls)");
    return dispatch(conn, agents_->on_agent_connection(conn, pending.peer), bytes);
  }
  if (std::isalpha(first) != 0) return read_http(conn, pending, bytes);
  reject(conn, "its first byte belongs to no known protocol");
}

void ProtocolMux::dispatch_to_store(ConnId conn, const PendingConnection& pending, ByteSpan bytes) {
  if (stores_ == nullptr) return reject(conn, "this port has no store");
  if (pending.round != round_) return reject(conn, "it connected in an earlier round");
  if (blocked_hosts_.contains(pending.peer.host))
    return reject(conn, "its node was lost; its workers belong to an earlier round");
  if (must_be_secure(conn) && !access_.is_own(pending.peer.host))
    return reject(conn,
                  "it comes from another machine and does not use TLS (--tls); PyTorch's clients cannot");
  if (!pending.has_proved && !is_secure(conn) && !access_.admits(pending.peer.host)) {
    return reject(conn, "it has not proved this store's secret, and no node of the job has its address");
  }
  const Address peer = pending.peer;
  forget(conn);  // so that it is not ended to make room for itself
  if (const auto why = reason_against_client(peer.host); !why.empty()) {
    network_.close(conn);
    return rejections_.rejected(peer, why);
  }
  ConnectionHandler& client = stores_->on_store_connection(conn, peer);
  watch_pending();
  dispatch(conn, client, bytes);
}

void ProtocolMux::take_proof(ConnId conn, PendingConnection& pending, ByteSpan bytes) {
  std::string answer;
  const KeyServer::Verdict verdict = pending.proof->take(bytes, answer);
  network_.send(conn, as_byte_span(answer));
  switch (verdict) {
    case KeyServer::Verdict::undecided:
      return;
    case KeyServer::Verdict::refused:
      return reject(conn, pending.proof->why());
    case KeyServer::Verdict::proven:
      break;
  }
  pending.proof.reset();
  pending.has_proved = true;
  uncount(pending);
  if (!bytes.empty()) identify(conn, pending, bytes);
}

void ProtocolMux::on_closed(ConnId conn, const ConnectionEnd& end) {
  if (end.kind == CloseKind::rejected) rejections_.rejected(pending_.at(conn).peer, end.reason.why);
  forget(conn);
}

void ProtocolMux::close() {
  for (const auto& [conn, pending] : std::exchange(pending_, {})) network_.close(conn);
  pending_of_host_.clear();
  timers_.disarm(std::exchange(timer_, {}));
}

void ProtocolMux::reject(ConnId conn, std::string_view why) {
  const Address peer = pending_.at(conn).peer;
  forget(conn);
  network_.close(conn);
  rejections_.rejected(peer, why);
}

void ProtocolMux::dispatch(ConnId conn, ConnectionHandler& handler, ByteSpan bytes) {
  forget(conn);
  network_.hand_over(conn, handler);
  handler.on_received(conn, bytes);
}

// HTTP: enough for a probe, a browser and a scraper. One request a connection, no body.
void ProtocolMux::read_http(ConnId conn, PendingConnection& pending, ByteSpan bytes) {
  pending.http.append(
      as_text(bytes.first(std::min(bytes.size(), http_head_limit + 1 - pending.http.size()))));
  const bool whole =
      pending.http.find("\r\n\r\n") != std::string::npos || pending.http.find("\n\n") != std::string::npos;
  if (!whole && pending.http.size() <= http_head_limit) return;
  const HttpAnswer answer = whole ? answer_http(pending.http, access_.is_own(pending.peer.host))
                                  : HttpAnswer{431, plain_text, "request too large\n"};
  const bool with_body = !pending.http.starts_with("HEAD ");
  forget(conn);
  network_.send(conn, as_byte_span(to_wire(answer, with_body)));
  network_.close(conn);
}

HttpAnswer ProtocolMux::answer_http(std::string_view head, bool is_own) {
  const auto request = parse_http_head(head);
  if (!request) return {400, plain_text, "not an HTTP request\n"};
  if (request->method != "GET" && request->method != "HEAD")
    return {405, plain_text, "only GET and HEAD are answered here\n"};
  if (request->path == "/healthz") return {200, plain_text, "ok\n"};
  if (access_.key().needs_tls && !is_own)
    return {403, plain_text,
            "with --tls only programs on this node may read this, since HTTP is not encrypted\n"};
  if (auto refused = refuse_http(http_rules_, *request)) return *refused;
  if (https_ == nullptr) return {404, plain_text, "no such page\n"};
  return https_->on_http_get(request->path);
}

}  // namespace dlaunch::store
