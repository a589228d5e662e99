#include "runtime/rpc/memory_offer.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/log.h"
#include "runtime/sockets/attempt.h"
#include "runtime/sockets/pass_descriptor.h"

namespace dlaunch::internal {

namespace {

constexpr char yes = 1;
constexpr char no = 0;
constexpr std::size_t offered_descriptors = 3;

void log_refusal(const std::string& why) {
  log(LogLevel::info,
      "remote calls between two workers of this host use a socket and no shared memory: " + why);
}

std::unique_ptr<SharedRings> share(int file, ByteRings::Side side, Descriptor own, Descriptor other) {
  std::string why;
  std::unique_ptr<ByteRings> rings = ByteRings::map(file, side, why);
  if (rings)
    return std::unique_ptr<SharedRings>(new SharedRings{std::move(rings), std::move(own), std::move(other)});
  log_refusal(why);
  return nullptr;
}

Descriptor new_event() {
  return Descriptor([] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
}

// Another file might end this process or make it wait when it is written to.
bool is_event(int fd) {
  std::array<char, 32> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = readlink(link.c_str(), target.data(), target.size());
  return size > 0 &&
         std::string_view(target.data(), static_cast<std::size_t>(size)) == "anon_inode:[eventfd]" &&
         (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

std::unique_ptr<SharedRings> make_shared_rings(const Descriptor& file) {
  Descriptor own = new_event();
  Descriptor other = new_event();
  if (own.is_open() && other.is_open())
    return share(file.get(), ByteRings::Side::maker, std::move(own), std::move(other));
  log_refusal("eventfd: " + std::generic_category().message(errno));
  return nullptr;
}

}  // namespace

std::unique_ptr<SharedRings> offer_memory(int socket, bool is_wanted, Deadline deadline,
                                          const LossCheck& check) {
  std::string why;
  const Descriptor file([&] { return is_wanted ? ByteRings::make_file(why) : -1; });
  if (is_wanted && !file.is_open()) log_refusal(why);
  std::unique_ptr<SharedRings> made = file.is_open() ? make_shared_rings(file) : nullptr;
  std::vector<int> offered;
  if (made) offered = {file.get(), made->own_event.get(), made->other_event.get()};
  std::optional<std::string> answer;
  if (send_descriptors(socket, offered)) answer = Attempt(socket, deadline, check).receive(1);
  if (!answer) throw DistNetworkError("it has accepted a connection, but does not answer on it");
  return answer->front() == yes ? std::move(made) : nullptr;
}

MemoryOffer take_memory_offer(int socket, bool is_wanted) {
  Passed offer = receive_descriptors(socket);
  MemoryOffer result{offer.has_byte};
  if (!offer.has_byte) return result;
  std::vector<Descriptor>& files = offer.files;  // those of the side that offers: its own event comes first
  if (files.size() == offered_descriptors && is_wanted && is_event(files[1].get()) &&
      is_event(files[2].get()))
    result.taken = share(files[0].get(), ByteRings::Side::receiver, std::move(files[2]), std::move(files[1]));
  const char answer = result.taken ? yes : no;
  (void)send(socket, &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT);  // else the other side sees the end
  return result;
}

}  // namespace dlaunch::internal
