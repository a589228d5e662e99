// libFuzzer: what another process, also a foreign one, may send to a rank: the opening of a connection, the
// address in the store, and frames in pieces. A message never leaves its memory.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/backends/gloo/connection.h"
#include "runtime/sockets/handshake.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::internal;

class Taker final : public FrameHandler {
 public:
  void on_frame(Connection& /*connection*/, const Frame& frame, std::span<const std::byte> bytes) override {
    require(bytes.size() == frame.length && frame.kind != Frame::data);
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

void fuzz(FuzzInput input) {
  const std::string text(input.text());
  if (const auto contact = parse_contact(text)) {
    require(parse_contact(to_text(*contact)) == contact);
  }
  if (text.size() >= opening_size) {
    (void)ServerHandshake::begin(text.substr(0, opening_size), std::string(process_id_size, 'i'), "key");
  }
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  Taker handler;
  std::mutex mutex;
  EndpointLock lock(mutex);
  const auto connection =
      std::make_shared<Connection>(handler, Descriptor([&] { return ends[0]; }), "peer", 2);
  const std::size_t half = text.size() / 2;
  const auto send = [&](std::string_view part) {
    require(write(ends[1], part.data(), part.size()) == static_cast<ssize_t>(part.size()));
  };
  send(input.text().substr(0, half));
  if (!connection->read(lock)) {
    send(input.text().substr(half));
    (void)connection->read(lock);
  }
  close(ends[1]);
}

}  // namespace
