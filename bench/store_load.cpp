// Puts one kind of work on a store server and says how many requests a second it answered. As redis-benchmark
// does it: each connection has one request under way and sends the next when the answer has come. The same
// program drives dlaunch's server, PyTorch's and Redis, so that what differs is the server.
//
//   store_load HOST:PORT torch2|torch1|redis set|get|add CONNECTIONS [SECONDS [PIPELINE]]
//
// With PIPELINE (1) each connection sends so many requests at once and waits for all answers. torch2 and
// torch1 are PyTorch's protocol of 2.2 and of 1.13. Keys of 8 and values of 32 bytes, a key for each
// connection; add increments one counter for all.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "store/loop/uv_loop.h"
#include "store/protocol/wire.h"

namespace dlaunch::store {
namespace {

struct Answer {
  std::size_t bytes = 0;  // its length, or
  std::size_t lines = 0;  // how many line ends it has
};

struct Work {
  std::string first;    // sent once: a greeting, and what makes a GET find something
  Answer first_answer;  // none: both zero
  std::string request;
  Answer answer;
  std::size_t pipelined = 1;

  void pipeline(std::size_t depth) {
    std::string many;
    for (std::size_t i = 0; i < depth; ++i) many += request;
    request = std::move(many);
    answer = {answer.bytes * depth, answer.lines * depth};
    pipelined = depth;
  }
};

// One connection.
struct Asker final : ConnectionHandler {
  void on_connected(ConnId id) override {
    conn = id;
    loop->send(conn, as_byte_span(work.first));
    expected = work.first_answer;
    if (expected.bytes == 0 && expected.lines == 0) ask();
  }
  void on_received(ConnId, ByteSpan bytes) override {
    got.bytes += bytes.size();
    got.lines += static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), std::byte{'\n'}));
    if (expected.bytes != 0 ? got.bytes < expected.bytes : got.lines < expected.lines) return;
    if (asked) answers += work.pipelined;
    ask();
  }
  void on_closed(ConnId, const ConnectionEnd& end) override {
    std::fprintf(stderr, "store_load: %s\n", end.reason.message().c_str());
    std::exit(1);  // NOLINT(concurrency-mt-unsafe)
  }
  void ask() {
    asked = true;
    got = {};
    expected = work.answer;
    loop->send(conn, as_byte_span(work.request));
  }

  UvLoop* loop = nullptr;
  ConnId conn;
  Work work;
  Answer expected;
  Answer got;
  bool asked = false;
  std::uint64_t answers = 0;
};

struct Stop final : TimerHandler {
  void on_timer(TimerId) override { loop->stop(); }
  UvLoop* loop = nullptr;
};

const std::string value(32, 'x');

std::string key_of(std::size_t connection) {
  char text[16];
  std::snprintf(text, sizeof text, "/key%04zu", connection % 10'000);
  return text;
}

std::string torch_request(Dialect dialect, RequestKind kind, std::string_view key, std::string_view with = {},
                          std::int64_t number = 0) {
  Request request;
  request.kind = kind;
  request.key = key;
  request.value = with;
  request.number = number;
  std::string bytes;
  encode(dialect, request, bytes);
  return bytes;
}

std::optional<Work> torch_work(Dialect dialect, std::string_view name, std::size_t connection) {
  const std::string key = key_of(connection);
  const std::string set = torch_request(dialect, RequestKind::set, key, value);
  const std::string count = torch_request(dialect, RequestKind::num_keys, {});
  Work work;
  if (dialect == Dialect::v2_2) work.first.assign("\x00\xce\xf7\x85\x3c", 5);
  work.first += set + count;
  work.first_answer = {sizeof(std::int64_t), 0};
  if (name == "set") {  // a SET has no answer of its own
    work.request = set + count;
    work.answer = {sizeof(std::int64_t), 0};
  } else if (name == "get") {
    work.request = torch_request(dialect, RequestKind::get, key);
    work.answer = {sizeof(std::uint64_t) + value.size(), 0};
  } else if (name == "add") {
    work.request = torch_request(dialect, RequestKind::add, "/counter", {}, 1);
    work.answer = {sizeof(std::int64_t), 0};
  } else {
    return std::nullopt;
  }
  return work;
}

std::string resp(std::initializer_list<std::string_view> words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    bytes.append("$").append(std::to_string(word.size())).append("\r\n").append(word).append("\r\n");
  }
  return bytes;
}

std::optional<Work> redis_work(std::string_view name, std::size_t connection) {
  const std::string key = key_of(connection);
  Work work;
  work.first = resp({"SET", key, value});
  work.first_answer = {0, 1};
  work.answer = {0, 1};
  if (name == "set") {
    work.request = work.first;
  } else if (name == "get") {
    work.request = resp({"GET", key});
    work.answer = {0, 2};
  } else if (name == "add") {
    work.request = resp({"INCR", "/counter"});
  } else {
    return std::nullopt;
  }
  return work;
}

std::optional<Work> work_of(std::string_view protocol, std::string_view name, std::size_t connection) {
  if (protocol == "torch2") return torch_work(Dialect::v2_2, name, connection);
  if (protocol == "torch1") return torch_work(Dialect::v1_13, name, connection);
  if (protocol == "redis") return redis_work(name, connection);
  return std::nullopt;
}

int run(const Address& server, std::string_view protocol, std::string_view name, std::size_t connections,
        double seconds, std::size_t pipeline) {
  std::vector<Asker> askers(connections);
  Stop stop;
  UvLoop loop;
  stop.loop = &loop;
  for (std::size_t i = 0; i < connections; ++i) {
    auto work = work_of(protocol, name, i);
    if (!work) {
      std::fprintf(stderr, "store_load: no work '%.*s' for '%.*s'\n", static_cast<int>(name.size()),
                   name.data(), static_cast<int>(protocol.size()), protocol.data());
      return 2;
    }
    work->pipeline(pipeline);
    askers[i].work = *work;
    askers[i].loop = &loop;
    loop.connect(server, loop.now() + std::chrono::seconds(10), askers[i]);
  }
  const auto answers = [&] {
    std::uint64_t sum = 0;
    for (const Asker& asker : askers) sum += asker.answers;
    return sum;
  };
  const auto run_for = [&](double time) {
    loop.arm(loop.now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(time)), stop);
    loop.run();
  };
  run_for(seconds / 5);  // connecting, and getting warm
  const std::uint64_t before = answers();
  const TimePoint start = loop.now();
  run_for(seconds);
  std::printf("%.0f\n", static_cast<double>(answers() - before) / to_seconds(loop.now() - start));
  return 0;
}

}  // namespace
}  // namespace dlaunch::store

int main(int argc, char** argv) {
  const char* colon = argc > 1 ? std::strrchr(argv[1], ':') : nullptr;
  const long connections = argc > 4 ? std::strtol(argv[4], nullptr, 10) : 0;
  if (colon == nullptr || connections < 1) {
    std::fputs(
        "usage: store_load HOST:PORT torch2|torch1|redis set|get|add CONNECTIONS [SECONDS [PIPELINE]]\n",
        stderr);
    return 2;
  }
  const dlaunch::store::Address server{std::string(argv[1], static_cast<std::size_t>(colon - argv[1])),
                                       static_cast<std::uint16_t>(std::strtol(colon + 1, nullptr, 10))};
  const double seconds = argc > 5 ? std::strtod(argv[5], nullptr) : 1.0;
  const long pipeline = argc > 6 ? std::max(1L, std::strtol(argv[6], nullptr, 10)) : 1;
  return dlaunch::store::run(server, argv[2], argv[3], static_cast<std::size_t>(connections), seconds,
                             static_cast<std::size_t>(pipeline));
}
