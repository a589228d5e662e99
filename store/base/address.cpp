#include "store/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>

#include "store/base/number.h"

namespace dlaunch::store {
namespace {

Error bad_address(std::string_view text, std::string why) {
  return {ErrorKind::invalid, "not an address:", std::string(1, '\'').append(text).append(1, '\''),
          std::move(why), "write host:port or [ipv6]:port"};
}

// The characters of names and addresses; whether one exists, the resolver decides.
bool is_host(std::string_view host) {
  return std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string_view(".-_:%").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool may_be_v6(std::string_view text) {
  const std::string_view address = text.substr(0, text.find('%'));
  return address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

}  // namespace

std::string to_string(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<Address> parse_address(std::string_view text, std::uint16_t default_port) {
  std::string_view host = text;
  std::string_view port;
  if (text.find("://") != std::string_view::npos) return bad_address(text, "it is a URL");
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return bad_address(text, "the bracket is not closed");
    host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty()) {
      if (!rest.starts_with(':')) return bad_address(text, "a colon must follow the bracket");
      port = rest.substr(1);
      if (port.empty()) return bad_address(text, "the port is missing");
    }
  } else if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    if (text.find(':') != colon)
      return bad_address(text,
                         may_be_v6(text) ? "an IPv6 address needs brackets" : "it has more than one port");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return bad_address(text, "the port is missing");
  }
  if (host.empty()) return bad_address(text, "the host is missing");
  if (!is_host(host)) return bad_address(text, "not a valid host name");

  Address address{std::string(host), default_port};
  if (!port.empty()) {
    const auto number = parse_number<std::uint16_t>(port);
    if (!number) return bad_address(text, "the port is not a number from 0 to 65535");
    address.port = *number;
  }
  return address;
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24U == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

bool are_loopback(std::span<const Address> all) {
  return std::ranges::all_of(all, [](const Address& address) { return is_loopback(address.host); });
}

}  // namespace dlaunch::store
