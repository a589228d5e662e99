#include "store/client/job_key.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "store/base/hex.h"
#include "store/base/hmac.h"
#include "store/contract/worker_env.h"

namespace dlaunch::store {
namespace {

constexpr std::string_view with_tls = " tls";

std::string variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

std::string read_start(const std::string& path) {
  std::array<char, 4 * mac_size> text{};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  ssize_t got = 0;
  do {
    got = read(fd, text.data(), text.size());
  } while (got < 0 && errno == EINTR);
  close(fd);
  return got <= 0 ? "" : std::string(text.data(), static_cast<std::size_t>(got));
}

}  // namespace

JobKey job_store_key(const Address& server) {
  const std::string path = variable(env::store_key_file);
  const bool is_the_jobs = variable(env::use_agent_store) == "True" &&
                           variable(env::master_addr) == server.host &&
                           variable(env::master_port) == std::to_string(server.port);
  return path.empty() || !is_the_jobs ? JobKey{} : parse_store_key(read_start(path));
}

std::string store_key_text(const JobKey& key) {
  return to_hex(key.key).append(key.tls ? with_tls : "").append("\n");
}

JobKey parse_store_key(const std::string& text) {
  JobKey key;
  const std::size_t length = std::min(2 * mac_size, text.size());
  const std::string_view end = std::string_view(text).substr(length);
  key.tls = end == std::string(with_tls).append("\n");
  if (!key.tls && end != "\n") return {};
  key.key = from_hex(std::string_view(text).substr(0, length), mac_size);
  return key.key.empty() ? JobKey{} : key;
}

}  // namespace dlaunch::store
