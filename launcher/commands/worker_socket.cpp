#include "launcher/commands/worker_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "store/base/number.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

Error failed(const std::string& path, const std::string& why) {
  return {ErrorKind::io, "cannot ask the worker at", path, why, ""};
}

// False: the deadline has passed.
bool wait_for(int fd, short what, TimePoint deadline) {
  while (true) {
    const auto left = std::clamp<std::int64_t>(to_millis(deadline - steady_now()), 0, 60'000);
    pollfd one{fd, what, 0};
    const int ready = poll(&one, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

bool is_header(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

// Until the other end closes, or a whole answer has come.
Result<std::string> read_answer(int fd, const std::string& path, TimePoint deadline) {
  std::string answer;
  while (answer.size() <= longest_answer) {
    if (!wait_for(fd, POLLIN, deadline)) return failed(path, "it has not answered in time");
    char chunk[64 * 1024];
    const ssize_t got = recv(fd, chunk, sizeof chunk, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return failed(path, std::strerror(errno));
    if (got == 0) return answer;
    answer.append(chunk, static_cast<std::size_t>(got));
    if (body_of(answer)) return answer;
  }
  return failed(path, "its answer is too long");
}

}  // namespace

std::optional<std::string> body_of(std::string_view answer) {
  constexpr std::string_view end_of_head = "\r\n\r\n";
  const std::size_t end = answer.find(end_of_head);
  if (end == std::string_view::npos || !answer.starts_with("HTTP/1.")) return std::nullopt;
  std::string_view head = answer.substr(0, end);
  if (head.find(" 200") != 8) return std::nullopt;
  std::optional<std::size_t> length;
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at + 2)) {
    std::string_view line = head.substr(at + 2);
    line = line.substr(0, line.find("\r\n"));
    if (!is_header(line, "content-length")) continue;
    line.remove_prefix(std::min(line.size(), line.find_first_of("0123456789")));
    length = parse_number<std::size_t>(line);
  }
  const std::string_view body = answer.substr(end + end_of_head.size());
  if (!length || body.size() < *length) return std::nullopt;
  return std::string(body.substr(0, *length));
}

Result<std::string> ask_worker(const std::string& path, const std::string& handler, TimePoint deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return failed(path, "it has no socket");
  path.copy(address.sun_path, path.size());
  const Socket socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (connect(socket.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed(path, std::strerror(errno));
  // Short: it fits into the socket's buffer.
  const std::string request = "POST /handler/" + handler +
                              " HTTP/1.1\r\nHost: worker\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  if (send(socket.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return failed(path, std::strerror(errno));
  auto answer = read_answer(socket.fd, path, deadline);
  if (!answer) return std::move(answer).error();
  auto body = body_of(*answer);
  if (!body) return failed(path, "it does not know the request");
  return std::move(*body);
}

}  // namespace dlaunch::launcher
