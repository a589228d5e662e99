// Which HTTP requests are answered: parses a request's head and checks Host and Authorization. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace dlaunch::store {

struct HttpAnswer {
  int status = 404;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

inline constexpr const char* plain_text = "text/plain; charset=utf-8";

// The parts that matter here; views of the head.
struct HttpRequest {
  std::string_view method{};
  std::string_view path{};
  std::optional<std::string_view> host{};           // the Host header, with its port
  std::optional<std::string_view> authorization{};  // the Authorization header
};
// `head`: up to the empty line. None: not an HTTP request, or one of these headers comes twice.
std::optional<HttpRequest> parse_http_head(std::string_view head);

struct HttpRules {
  // Host names of the port, in lower case, besides those that are always accepted.
  std::set<std::string, std::less<>> names = {};
  // If set: everything but /healthz needs "Authorization: Bearer SECRET".
  std::string secret = {};
};

// A web page may send its visitor's browser to this port under the page's own host name (DNS rebinding), but
// not under another: an IP address, localhost, a name without a dot and one of `names` are accepted. So is a
// request without Host, which no browser sends.
bool is_own_host(const HttpRules& rules, const HttpRequest& request);

// The error to answer. None: the request is allowed.
std::optional<HttpAnswer> refuse_http(const HttpRules& rules, const HttpRequest& request);

}  // namespace dlaunch::store
