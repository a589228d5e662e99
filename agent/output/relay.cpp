#include "agent/output/relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace dlaunch::agent {

std::unique_ptr<Relay> Relay::start(int target) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return nullptr;
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  auto shared = std::make_shared<Shared>();
  shared->source = ends[0];
  shared->target = target;
  std::unique_ptr<Relay> relay(new Relay(ends[1], shared));
  // Only the loop's thread receives signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([shared] {
      work(*shared);
      close(shared->source);  // further writes to it fail with EPIPE
    }).detach();
  } catch (const std::system_error&) {
    close(ends[0]);
    relay.reset();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return relay;
}

Relay::~Relay() {
  give_up();
  close(fd_);
}

void Relay::work(Shared& shared) {
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t got = read(shared.source, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      if (shared.given_up) return;
      const ssize_t wrote = write(shared.target, rest.data(), rest.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return;
      const auto size = static_cast<std::size_t>(wrote);
      shared.lines += static_cast<std::uint64_t>(std::count(rest.begin(), rest.begin() + wrote, '\n'));
      shared.bytes += size;
      rest.remove_prefix(size);
    }
  }
}

}  // namespace dlaunch::agent
