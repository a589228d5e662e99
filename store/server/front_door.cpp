#include "store/server/front_door.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "store/protocol/wire.h"

namespace dlaunch {
namespace {

constexpr std::size_t http_head_limit = 8 << 10;
constexpr std::size_t strangers_remembered = 256;
constexpr std::byte tls_first_byte{0x16};  // of a handshake's record; no store request begins with it

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
  if (answer.status == 401) text.append("\r\nWWW-Authenticate: Bearer");
  text.append("\r\nConnection: close\r\n\r\n");
  if (with_body) text += answer.body;
  return text;
}

}  // namespace

void StrangerReport::turned_away(const Address& peer, std::string_view why) {
  if (full_ || !report_) return;
  std::string key = peer.host;
  key.append(" ").append(why);
  if (!said_.insert(std::move(key)).second) return;
  report_("turned away " + to_string(peer) + ": " + std::string(why));
  if (said_.size() < strangers_remembered) return;
  full_ = true;
  said_.clear();
  report_("so many strangers were turned away that further ones are not reported");
}

ConnectionHandler& FrontDoor::on_accepted(ConnId conn, const Address& peer) {
  guests_.emplace(conn, Guest{peer, round_, clock_.now(), ++last_number_});
  ++guests_of_[peer.host];
  watch_guests();
  keep_limits(peer.host);
  return *this;
}

void FrontDoor::on_received(ConnId conn, ByteSpan bytes) {
  Guest& guest = guests_.at(conn);
  if (!guest.http.empty()) return listen_to_http(conn, guest, bytes);
  if (guest.proof) return take_proof(conn, guest, bytes);
  lead_on(conn, guest, bytes);
}

void FrontDoor::lead_on(ConnId conn, Guest& guest, ByteSpan bytes) {
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  if (first <= last_request_byte) return lead_to_store(conn, guest, bytes);
  if (bytes[0] == tls_first_byte) {
    if (secure_ == nullptr) return turn_away(conn, "it speaks TLS, which was not asked for here (--tls)");
    if (is_secure(conn)) return turn_away(conn, "it speaks TLS within TLS");
    return secure_->secure(conn, bytes, *this);
  }
  if (bytes[0] == key_first_byte) {
    if (must_be_secure(conn)) return turn_away(conn, "it does not speak TLS (--tls)");
    if (!access_.has_key()) return turn_away(conn, "it proves a secret, but this store has none");
    guest.proof.emplace(access_.key().key, access_.key().draw_nonce());
    return take_proof(conn, guest, bytes);
  }
  if (bytes[0] == agent_first_byte) {
    if (agents_ == nullptr) return turn_away(conn, "an agent, but there is no rendezvous here");
    if (must_be_secure(conn)) return turn_away(conn, "an agent that does not speak TLS (--tls)");
    return lead_to(conn, agents_->on_agent_connection(conn, guest.peer), bytes);
  }
  if (std::isalpha(first) != 0) return listen_to_http(conn, guest, bytes);
  turn_away(conn, "its first byte belongs to no protocol known here");
}

void FrontDoor::lead_to_store(ConnId conn, const Guest& guest, ByteSpan bytes) {
  if (stores_ == nullptr) return turn_away(conn, "there is no store here");
  if (guest.round != round_) return turn_away(conn, "it came in an earlier round");
  if (shut_out_.contains(guest.peer.host))
    return turn_away(conn, "its node was lost, and what still runs there is of an earlier round");
  if (must_be_secure(conn) && !access_.is_own(guest.peer.host))
    return turn_away(conn,
                     "it does not speak TLS (--tls), as PyTorch's clients do not, and comes from elsewhere");
  if (!guest.has_proved && !is_secure(conn) && !access_.admits(guest.peer.host)) {
    return turn_away(
        conn, "this store has a secret, which it has not proved, and no node of the job is at its address");
  }
  const Address peer = guest.peer;
  forget(conn);  // so that it is not ended to make room for itself
  if (const auto why = reason_against_client(peer.host); !why.empty()) {
    network_.close(conn);
    return strangers_.turned_away(peer, why);
  }
  ConnectionHandler& client = stores_->on_store_connection(conn, peer);
  watch_guests();
  lead_to(conn, client, bytes);
}

void FrontDoor::take_proof(ConnId conn, Guest& guest, ByteSpan bytes) {
  std::string answer;
  const KeyServer::Verdict verdict = guest.proof->take(bytes, answer);
  network_.send(conn, as_byte_span(answer));
  switch (verdict) {
    case KeyServer::Verdict::undecided:
      return;
    case KeyServer::Verdict::refused:
      return turn_away(conn, guest.proof->why());
    case KeyServer::Verdict::proven:
      break;
  }
  guest.proof.reset();
  guest.has_proved = true;
  count_out(guest);
  if (!bytes.empty()) lead_on(conn, guest, bytes);
}

void FrontDoor::on_closed(ConnId conn, const Error& reason) {
  // Of TLS: it has another key.
  if (reason.kind == ErrorKind::refused) strangers_.turned_away(guests_.at(conn).peer, reason.why);
  forget(conn);
}

void FrontDoor::close() {
  for (const auto& [conn, guest] : std::exchange(guests_, {})) network_.close(conn);
  guests_of_.clear();
  timers_.disarm(std::exchange(timer_, {}));
}

void FrontDoor::turn_away(ConnId conn, std::string_view why) {
  const Address peer = guests_.at(conn).peer;
  forget(conn);
  network_.close(conn);
  strangers_.turned_away(peer, why);
}

void FrontDoor::lead_to(ConnId conn, ConnectionHandler& handler, ByteSpan bytes) {
  forget(conn);
  network_.hand_over(conn, handler);
  handler.on_received(conn, bytes);
}

// HTTP: enough of it for a probe, a browser and a scraper. One request a connection, no body.
void FrontDoor::listen_to_http(ConnId conn, Guest& guest, ByteSpan bytes) {
  guest.http.append(as_text(bytes.first(std::min(bytes.size(), http_head_limit + 1 - guest.http.size()))));
  const bool whole =
      guest.http.find("\r\n\r\n") != std::string::npos || guest.http.find("\n\n") != std::string::npos;
  if (!whole && guest.http.size() <= http_head_limit) return;
  const HttpAnswer answer = whole ? answer_http(guest.http, access_.is_own(guest.peer.host))
                                  : HttpAnswer{431, plain_text, "request too large\n"};
  const bool with_body = !guest.http.starts_with("HEAD ");
  forget(conn);
  network_.send(conn, as_byte_span(to_wire(answer, with_body)));
  network_.close(conn);
}

HttpAnswer FrontDoor::answer_http(std::string_view head, bool is_own) {
  const auto request = parse_http_head(head);
  if (!request) return {400, plain_text, "not an HTTP request\n"};
  if (request->method != "GET" && request->method != "HEAD")
    return {405, plain_text, "only GET and HEAD are answered here\n"};
  if (request->path == "/healthz") return {200, plain_text, "ok\n"};
  if (access_.key().needs_tls && !is_own)
    return {403, plain_text,
            "with --tls this is shown to the node's own programs only, since HTTP is not encrypted\n"};
  if (auto refused = refuse_http(http_rules_, *request)) return *refused;
  if (https_ == nullptr) return {404, plain_text, "nothing here\n"};
  return https_->on_http_get(request->path);
}

}  // namespace dlaunch
