// Names in a statically linked dlaunch: the linker sends every call of getaddrinfo and getpwuid here, those
// inside libuv and the C library too (--wrap).
//
// The C library looks up names in modules that nsswitch.conf(5) lists. A statically linked program can load
// them only if the machine has exactly the same C library; files and DNS are built in. If the machine also
// uses other services (systemd, mDNS, a directory), getent(1) is run instead: it belongs to the machine's C
// library.
#include <arpa/inet.h>
#include <netdb.h>
#include <nss.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "launcher/machine/program_output.h"
#include "launcher/startup/name_services.h"
#include "store/client/steady_time.h"

// NOLINTBEGIN(readability-identifier-naming): the linker's names
extern "C" {
int __real_getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found);
int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found);
passwd* __wrap_getpwuid(uid_t uid);
}
// NOLINTEND(readability-identifier-naming)

namespace dlaunch::launcher {
namespace {

constexpr auto patience = std::chrono::seconds(60);
constexpr std::size_t most = 256 * 1024;

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_numeric(const char* node) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, node, address.data()) == 1 || inet_pton(AF_INET6, node, address.data()) == 1;
}

const char* database_for(int family) {
  if (family == AF_INET) return "ahostsv4";
  return family == AF_INET6 ? "ahostsv6" : "ahosts";
}

// Each address is made by getaddrinfo itself, so that freeaddrinfo can free them.
int as_list(const std::vector<std::string>& addresses, const char* service, addrinfo hints,
            addrinfo** found) {
  hints.ai_flags |= AI_NUMERICHOST;
  addrinfo** end = found;
  *found = nullptr;
  int last_failure = EAI_NONAME;
  for (const std::string& address : addresses) {
    if (const int failed = __real_getaddrinfo(address.c_str(), service, &hints, end); failed != 0) {
      *end = nullptr;
      last_failure = failed;
      continue;
    }
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return *found != nullptr ? 0 : last_failure;
}

int look_up(const char* node, const char* service, const addrinfo* wanted, addrinfo** found) {
  const addrinfo hints = wanted != nullptr ? *wanted : addrinfo{};
  const bool is_name =
      node != nullptr && *node != '\0' && (hints.ai_flags & AI_NUMERICHOST) == 0 && !is_numeric(node);
  if (!is_name || !needs_modules(text_of("/etc/nsswitch.conf"), "hosts"))
    return __real_getaddrinfo(node, service, wanted, found);
  const auto printed =
      output_of({"getent", "--", database_for(hints.ai_family), node}, steady_now() + patience, most);
  if (printed) return as_list(addresses_in(*printed), service, hints, found);
  __nss_configure_lookup("hosts", "files dns");
  return __real_getaddrinfo(node, service, wanted, found);
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

passwd* find_in(std::FILE* file, uid_t uid) {
  if (file == nullptr) return nullptr;
  passwd* entry = fgetpwent(file);  // NOLINT(concurrency-mt-unsafe): as getpwuid
  while (entry != nullptr && entry->pw_uid != uid) entry = fgetpwent(file);  // NOLINT(concurrency-mt-unsafe)
  return entry;
}

passwd* find_user(uid_t uid) {
  const File users(std::fopen("/etc/passwd", "re"), std::fclose);
  if (passwd* entry = find_in(users.get(), uid)) return entry;
  auto printed = output_of({"getent", "passwd", std::to_string(uid)}, steady_now() + patience, most);
  if (!printed || printed->empty()) return nullptr;
  const File line(fmemopen(printed->data(), printed->size(), "r"), std::fclose);
  return find_in(line.get(), uid);
}

}  // namespace
}  // namespace dlaunch::launcher

// NOLINTBEGIN(readability-identifier-naming)
int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  return dlaunch::launcher::look_up(node, service, hints, found);
}

passwd* __wrap_getpwuid(uid_t uid) { return dlaunch::launcher::find_user(uid); }
// NOLINTEND(readability-identifier-naming)
