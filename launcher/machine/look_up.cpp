#include "launcher/machine/look_up.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <chrono>

#include "launcher/machine/program_output.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr auto patience = std::chrono::seconds(5);
constexpr std::size_t most = 64 * 1024;

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  const std::string without_zone = text.substr(0, text.find('%'));
  return inet_pton(AF_INET, without_zone.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, without_zone.c_str(), address.data()) == 1;
}

}  // namespace

// Another process, since the C library's own functions have no deadline, and its asynchronous ones start a
// thread.
bool can_look_up(const std::string& name) {
  if (is_address(name)) return true;
  const auto printed = output_of({"getent", "--", "ahosts", name}, steady_now() + patience, most);
  return !printed || is_address(printed->substr(0, printed->find_first_of(" \t\n")));
}

}  // namespace dlaunch::launcher
