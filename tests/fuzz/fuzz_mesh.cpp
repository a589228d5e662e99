// libFuzzer: what another process, also a foreign one, may send to a rank: the opening of a connection, the
// address in the store, and frames in pieces. A message never leaves its memory.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/gloo/connection.h"
#include "runtime/backends/gloo/handshake.h"

namespace {

using namespace dlaunch::internal;

class Taker final : public FrameHandler {
 public:
  void on_frame(Connection& /*connection*/, const Frame& frame, std::span<const std::byte> bytes) override {
    if (bytes.size() != frame.length || frame.kind == Frame::data) std::abort();
    for (const std::byte byte : bytes) sum_ = sum_ + std::to_integer<unsigned>(byte);
  }
  std::shared_ptr<Incoming> find_receive(Connection& /*connection*/, const Frame& frame) override {
    if (frame.number % 2 == 0) return nullptr;
    memory_.resize(frame.length);
    auto message = std::make_shared<Incoming>();
    message->memory = memory_.data();
    message->size = memory_.size();
    return message;
  }
  void request_write(Connection& /*connection*/) override {}
  void request_writable(Connection& /*connection*/, bool /*waits*/) override {}
  void on_memory_released() override {}

 private:
  std::vector<std::byte> memory_;
  volatile unsigned sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto contact = parse_contact(text)) {
    if (parse_contact(to_text(*contact)) != contact) std::abort();
  }
  if (size >= opening_size) {
    (void)ServerHandshake::begin(text.substr(0, opening_size), std::string(process_id_size, 'i'), "key");
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  Taker handler;
  std::mutex mutex;
  EndpointLock lock(mutex);
  const auto connection =
      std::make_shared<Connection>(handler, Descriptor([&] { return ends[0]; }), "peer", 2);
  const std::size_t half = size / 2;
  if (write(ends[1], data, half) != static_cast<ssize_t>(half)) std::abort();
  bool goes_on = !connection->read(lock);
  if (goes_on && write(ends[1], data + half, size - half) != static_cast<ssize_t>(size - half)) std::abort();
  if (goes_on) (void)connection->read(lock);
  close(ends[1]);
  return 0;
}
