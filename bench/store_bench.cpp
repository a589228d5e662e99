// How many requests a second the store's server answers: set, get and add of 32-byte values, with 1, 16 and
// 64 connections that each have one request under way, as redis-benchmark does it. Server and clients are one
// thread each, on the same machine.
//
//   store_bench [seconds per line, default 1]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "store/base/uv_loop.h"
#include "store/server.h"

namespace dlaunch {
namespace {

// One connection that sends its request again whenever the answer has come.
struct Asker final : ConnectionHandler {
  void on_connected(ConnId id) override {
    conn = id;
    static constexpr char greeting[] = "\x00\xce\xf7\x85\x3c";
    loop->send(conn, as_byte_span({greeting, 5}));
    loop->send(conn, as_byte_span(request));
  }
  void on_received(ConnId, ByteSpan bytes) override {
    got += bytes.size();
    if (got < answer_size) return;
    got = 0;
    ++answers;
    loop->send(conn, as_byte_span(request));
  }
  void on_closed(ConnId, const Error& reason) override {
    std::fprintf(stderr, "store_bench: %s\n", reason.message().c_str());
    std::exit(1);  // NOLINT(concurrency-mt-unsafe)
  }

  UvLoop* loop = nullptr;
  ConnId conn;
  std::string request;
  std::size_t answer_size = 0;
  std::size_t got = 0;
  std::uint64_t answers = 0;
};

struct Stop final : TimerHandler {
  void on_timer(TimerId) override { loop->stop(); }
  UvLoop* loop = nullptr;
};

struct Work {
  const char* name;
  std::size_t answer_size;
  std::string (*request)(std::size_t connection);
};

std::string made(const Request& request) {
  std::string bytes;
  encode(Dialect::v2_2, request, bytes);
  return bytes;
}

const std::string value(32, 'x');

std::string set_request(std::size_t connection) {
  const std::string key = "/key" + std::to_string(connection);
  Request set;
  set.kind = RequestKind::set;
  set.key = key;
  set.value = value;
  Request ping;  // a SET has no answer of its own
  ping.kind = RequestKind::ping;
  return made(set) + made(ping);
}
std::string get_request(std::size_t connection) {
  const std::string key = "/key" + std::to_string(connection);
  Request get;
  get.kind = RequestKind::get;
  get.key = key;
  return made(get);
}
std::string add_request(std::size_t) {
  Request add;
  add.kind = RequestKind::add;
  add.key = "/counter";
  add.number = 1;
  return made(add);
}

double measure(const Address& server, const Work& work, std::size_t connections, double seconds) {
  std::vector<Asker> askers(connections);
  Stop stop;
  UvLoop loop;
  stop.loop = &loop;
  for (std::size_t i = 0; i < connections; ++i) {
    askers[i].loop = &loop;
    askers[i].request = work.request(i);
    askers[i].answer_size = work.answer_size;
    loop.connect(server, loop.now() + std::chrono::seconds(10), askers[i]);
  }
  const TimePoint start = loop.now();
  loop.arm(start + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)), stop);
  loop.run();
  std::uint64_t answers = 0;
  for (const Asker& asker : askers) answers += asker.answers;
  return static_cast<double>(answers) / to_seconds(loop.now() - start);
}

int run(double seconds) {
  UvLoop loop;
  StoreServer server(loop, loop, loop, {});
  const auto listening = server.listen({"127.0.0.1", 0});
  if (!listening) {
    std::fprintf(stderr, "store_bench: %s\n", listening.error().message().c_str());
    return 1;
  }
  std::thread thread([&] { loop.run(); });
  const Work works[] = {{"set", 4, set_request}, {"get", 8 + 32, get_request}, {"add", 8, add_request}};
  for (const Work& work : works) {
    for (const std::size_t connections : std::array<std::size_t, 3>{1, 16, 64}) {
      const double rate = measure({"127.0.0.1", listening->port}, work, connections, seconds);
      std::printf("%-4s %3zu connections %10.0f requests/s\n", work.name, connections, rate);
    }
  }
  loop.post([&] { loop.stop(); });
  thread.join();
  return 0;
}

}  // namespace
}  // namespace dlaunch

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  return dlaunch::run(seconds > 0 ? seconds : 1.0);
}
