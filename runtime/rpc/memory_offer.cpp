#include "runtime/rpc/memory_offer.h"

#include <sys/socket.h>

#include <optional>
#include <string>

#include "dlaunch/error.h"
#include "runtime/base/log.h"
#include "runtime/sockets/attempt.h"
#include "runtime/sockets/pass_descriptor.h"

namespace dlaunch::internal {

namespace {

constexpr char yes = 1;
constexpr char no = 0;

void log_refusal(const std::string& why) {
  log(LogLevel::info,
      "remote calls between two workers of this host use a socket and no shared memory: " + why);
}

std::unique_ptr<ByteRings> mapped(int file, ByteRings::Side side) {
  std::string why;
  std::unique_ptr<ByteRings> rings = ByteRings::map(file, side, why);
  if (!rings) log_refusal(why);
  return rings;
}

}  // namespace

std::unique_ptr<ByteRings> offer_memory(int socket, bool is_wanted, Deadline deadline,
                                        const LossCheck& check) {
  std::string why;
  const Descriptor file([&] { return is_wanted ? ByteRings::make_file(why) : -1; });
  if (is_wanted && !file.is_open()) log_refusal(why);
  std::unique_ptr<ByteRings> rings = file.is_open() ? mapped(file.get(), ByteRings::Side::maker) : nullptr;
  std::optional<std::string> answer;
  if (send_descriptor(socket, rings ? file.get() : -1)) answer = Attempt(socket, deadline, check).receive(1);
  if (!answer) throw DistNetworkError("it has accepted a connection, but does not answer on it");
  return answer->front() == yes ? std::move(rings) : nullptr;
}

MemoryOffer take_memory_offer(int socket, bool is_wanted) {
  const Passed offer = receive_descriptor(socket);
  MemoryOffer result{offer.has_byte};
  if (offer.file.is_open() && is_wanted) result.taken = mapped(offer.file.get(), ByteRings::Side::receiver);
  if (!offer.has_byte) return result;
  const char answer = result.taken ? yes : no;
  (void)send(socket, &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT);  // else the other side sees the end
  return result;
}

}  // namespace dlaunch::internal
