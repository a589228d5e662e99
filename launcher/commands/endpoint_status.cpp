#include "launcher/commands/endpoint_status.h"

#include <optional>
#include <utility>

#include "agent/election/http_reply.h"
#include "store/client/blocking_socket.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

Error no_status(const Address& endpoint, std::string why) {
  return {ErrorKind::network, "no job's status at", to_string(endpoint), std::move(why),
          "give the job's --rdzv-endpoint, or --master-addr and --master-port"};
}

Result<agent::WorldView> query(const Address& endpoint, const std::string& secret, Duration patience) {
  const TimePoint deadline = steady_now() + patience;
  BlockingSocket socket;
  if (auto made = socket.connect(endpoint, deadline); !made) return no_status(endpoint, made.error().why);
  std::string request = "GET /job HTTP/1.1\r\nHost: " + to_string(endpoint) + "\r\nConnection: close\r\n";
  if (!secret.empty()) request += "Authorization: Bearer " + secret + "\r\n";
  request += "\r\n";
  if (auto sent = socket.send(as_byte_span(request), deadline); !sent)
    return no_status(endpoint, sent.error().why);
  agent::HttpReply reply;
  while (!reply.complete()) {
    char byte = 0;
    if (auto got = socket.receive(&byte, 1, deadline); !got) return no_status(endpoint, got.error().why);
    if (auto read = reply.append(as_byte_span(std::string_view(&byte, 1))); !read)
      return no_status(endpoint, read.error().why);
  }
  constexpr int ok = 200;
  constexpr int unauthorized = 401;
  constexpr int misdirected = 421;
  if (reply.status() == unauthorized) {
    return Error{ErrorKind::refused, "no job's status at", to_string(endpoint),
                 secret.empty() ? "the job requires a secret" : "the job has another secret",
                 "give the job's --token-file"};
  }
  if (reply.status() == misdirected)
    return no_status(endpoint, "the job does not accept this host name; use its address");
  if (reply.status() != ok) return no_status(endpoint, "a store answers there, but no job");
  auto view = agent::world_view_from_json(reply.take_body());
  if (!view) return no_status(endpoint, view.error().why);
  return view;
}

}  // namespace

Result<agent::WorldView> query_endpoints(const std::vector<Address>& endpoints, const std::string& secret,
                                         Duration patience) {
  std::optional<Result<agent::WorldView>> best;
  for (const Address& endpoint : endpoints) {
    auto view = query(endpoint, secret, patience);
    if (view && view->state != "standby") return view;
    if (!best || !best->ok()) best = std::move(view);
  }
  return std::move(*best);
}

}  // namespace dlaunch::launcher
