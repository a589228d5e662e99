#include "store/server/http_access.h"

#include <arpa/inet.h>

#include <algorithm>

#include "store/base/header_text.h"
#include "store/base/hmac.h"

namespace dlaunch::store {
namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

// False: a second header of this name.
bool keep(std::optional<std::string_view>& header, std::string_view value) {
  if (header) return false;
  header = value;
  return true;
}

bool is_ipv4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_ipv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
}

// The bearer token; its scheme may be in any case. Empty: none.
std::string_view bearer(const HttpRequest& request) {
  constexpr std::string_view scheme = "bearer ";
  const std::string_view value = request.authorization.value_or(std::string_view{});
  if (lower_case(value.substr(0, scheme.size())) != scheme) return {};
  return trimmed(value.substr(scheme.size()));
}

}  // namespace

std::optional<HttpRequest> parse_http_head(std::string_view head) {
  const std::string_view line = take_line(head);
  const auto first_blank = line.find(' ');
  const auto last_blank = line.rfind(' ');
  if (first_blank == last_blank || !line.substr(last_blank + 1).starts_with("HTTP/")) return std::nullopt;
  HttpRequest request;
  request.method = line.substr(0, first_blank);
  request.path = line.substr(first_blank + 1, last_blank - first_blank - 1);
  while (!head.empty()) {
    const std::string_view header = take_line(head);
    if (header.empty()) break;
    const std::size_t colon = header.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = lower_case(header.substr(0, colon));
    const std::string_view value = trimmed(header.substr(colon + 1));
    if (name == "host" && !keep(request.host, value)) return std::nullopt;
    if (name == "authorization" && !keep(request.authorization, value)) return std::nullopt;
  }
  return request;
}

bool is_own_host(const HttpRules& rules, const HttpRequest& request) {
  if (!request.host) return true;
  std::string host = lower_case(*request.host);
  if (host.starts_with('[')) return is_ipv6(host.substr(1, std::min(host.find(']'), host.size()) - 1));
  host.resize(std::min(host.find(':'), host.size()));
  if (host.ends_with('.')) host.pop_back();
  const bool has_no_dot = host.find('.') == std::string::npos;
  return has_no_dot || is_ipv4(host) || host.ends_with(".localhost") || rules.names.contains(host);
}

std::optional<HttpAnswer> refuse_http(const HttpRules& rules, const HttpRequest& request) {
  if (!is_own_host(rules, request)) {
    return HttpAnswer{421, plain_text,
                      "unknown host name: use the server's address, or a name that the job was given "
                      "(--rdzv-endpoint, --master-addr, --local-addr)\n"};
  }
  if (!rules.secret.empty() && !are_equal_secrets(bearer(request), rules.secret))
    return HttpAnswer{401, plain_text, "the secret is required: Authorization: Bearer SECRET\n"};
  return std::nullopt;
}

}  // namespace dlaunch::store
