// Which HTTP requests are answered: a request's head taken apart, and the rules of Host and Authorization.
// Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace dlaunch {

struct HttpAnswer {
  int status = 404;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

inline constexpr const char* plain_text = "text/plain; charset=utf-8";

// The parts that matter here; they point into the head.
struct HttpRequest {
  std::string_view method{};
  std::string_view path{};
  std::optional<std::string_view> host{};           // the Host header, with its port
  std::optional<std::string_view> authorization{};  // the Authorization header
};
// `head`: up to the empty line. None: it is not an HTTP request, or has one of these headers twice.
std::optional<HttpRequest> parse_http_head(std::string_view head);

struct HttpRules {
  // Host names under which the port is known, in lower case, besides those that are always accepted.
  std::set<std::string, std::less<>> names = {};
  // Given: everything but /healthz needs "Authorization: Bearer SECRET".
  std::string secret = {};
};

// A web page may send its visitor's browser to this port under a name of its own (DNS rebinding), but not
// under another: an IP address, localhost, a name without a dot and one of `names` are accepted, and so is a
// request without Host, which no browser sends.
bool is_own_host(const HttpRules& rules, const HttpRequest& request);

// None: the request may be answered.
std::optional<HttpAnswer> refuse_http(const HttpRules& rules, const HttpRequest& request);

}  // namespace dlaunch
