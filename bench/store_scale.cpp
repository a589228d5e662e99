// What a store server bears: many connections, all at once or idle; one large value; a wait for many keys.
//
//   store_scale HOST:PORT hold N     N clients that have been answered once; then idle until stdin ends
//   store_scale HOST:PORT storm N    N clients connect in one turn; prints seconds until each was answered
//   store_scale HOST:PORT big MIB    sets and gets one value; prints the seconds of each
//   store_scale HOST:PORT gets N     N of our clients, a thread each, get for a second; prints gets a second
//   store_scale HOST:PORT connect N  one client after the other; prints the time that each takes to be served
//   store_scale HOST:PORT wait N     one client waits for N keys that another sets; prints the seconds
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "store/client/tcp_store.h"
#include "store/loop/uv_loop.h"
#include "store/protocol/key_proof.h"
#include "store/protocol/wire.h"
#ifdef DLAUNCH_HAS_TLS
#include "store/tls/tls_session.h"
#endif

namespace dlaunch::store {
namespace {

constexpr Duration patience = std::chrono::seconds(60);

struct Guest final : ConnectionHandler {
  void on_connected(ConnId conn) override {
    std::string bytes("\x00\xce\xf7\x85\x3c", 5);
    Request add;
    add.kind = RequestKind::add;
    add.key = "init/";
    add.number = 1;
    encode(Dialect::v2_2, add, bytes);
    loop->send(conn, as_byte_span(bytes));
  }
  void on_received(ConnId, ByteSpan bytes) override {
    got += bytes.size();
    if (got == sizeof(std::int64_t) && --*missing == 0) loop->stop();
  }
  void on_closed(ConnId, const ConnectionEnd& end) override {
    std::fprintf(stderr, "store_scale: %s\n", end.reason.message().c_str());
    std::exit(1);  // NOLINT(concurrency-mt-unsafe)
  }

  UvLoop* loop = nullptr;
  std::size_t* missing = nullptr;
  std::size_t got = 0;
};

// Returns when all have been answered.
void arrive(UvLoop& loop, std::vector<Guest>& guests, const Address& server) {
  std::size_t missing = guests.size();
  for (Guest& guest : guests) {
    guest.loop = &loop;
    guest.missing = &missing;
    loop.connect(server, loop.now() + patience, guest);
  }
  loop.run();
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// With DLAUNCH_TOKEN it proves the store's key; with DLAUNCH_BENCH_TLS it is encrypted instead.
TcpStore store_at(const Address& server) {
  TcpStoreOptions options;
  options.server = server;
  options.timeout = patience;
  const char* secret = std::getenv("DLAUNCH_TOKEN");  // NOLINT(concurrency-mt-unsafe)
  if (secret != nullptr) options.key = store_key(secret);
#ifdef DLAUNCH_HAS_TLS
  if (secret != nullptr && std::getenv("DLAUNCH_BENCH_TLS") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    options.make_session =
        [side = make_tls_client(tls_key_of_store(options.key))]() -> Result<std::unique_ptr<SecureSession>> {
      return make_tls_session(side);
    };
  }
#endif
  return TcpStore(options);
}

// One after the other: what a new connection costs.
int connect(const Address& server, std::size_t count) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) store_at(server);
  std::printf("%.1f us\n", since(start) / static_cast<double>(count) * 1e6);
  return 0;
}

int big(const Address& server, std::size_t mib) {
  TcpStore store = store_at(server);
  const std::string value(mib << 20, 'x');
  const auto start = std::chrono::steady_clock::now();
  store.set("big", value);
  store.check(std::vector<std::string>{"big"});  // a SET has no answer of its own
  const double set = since(start);
  const auto again = std::chrono::steady_clock::now();
  const bool same = store.get("big") == value;
  std::printf("%.2f %.2f\n", set, since(again));
  store.delete_key("big");
  return same ? 0 : 1;
}

int wait(const Address& server, std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back("wait/" + std::to_string(i));
  TcpStore setter = store_at(server);
  TcpStore waiter = store_at(server);
  const auto start = std::chrono::steady_clock::now();
  std::thread waiting([&] { waiter.wait(keys, patience); });
  for (const std::string& key : keys) setter.set(key, "1");
  waiting.join();
  std::printf("%.3f\n", since(start));
  return 0;
}

int gets(const Address& server, std::size_t clients) {
  store_at(server).set("key", std::string(32, 'x'));
  std::atomic<std::uint64_t> count = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      TcpStore store = store_at(server);
      for (int warm = 0; warm < 500; ++warm) (void)store.get("key");
      const auto start = std::chrono::steady_clock::now();
      for (; since(start) < 1; ++count) (void)store.get("key");
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%llu\n", static_cast<unsigned long long>(count));
  return 0;
}

int run(const Address& server, std::string_view what, std::size_t count) {
  if (what == "big") return big(server, count);
  if (what == "gets") return gets(server, count);
  if (what == "connect") return connect(server, count);
  if (what == "wait") return wait(server, count);
  UvLoop loop;
  std::vector<Guest> guests(count);
  const auto start = std::chrono::steady_clock::now();
  arrive(loop, guests, server);
  std::printf("%.3f\n", since(start));
  std::fflush(stdout);
  if (what == "hold") {
    while (std::getchar() != EOF) continue;
  }
  return 0;
}

}  // namespace
}  // namespace dlaunch::store

int main(int argc, char** argv) {
  const char* colon = argc > 1 ? std::strrchr(argv[1], ':') : nullptr;
  const std::string_view what = argc > 2 ? argv[2] : "";
  const long count = argc > 3 ? std::strtol(argv[3], nullptr, 10) : 0;
  const bool known = what == "hold" || what == "storm" || what == "big" || what == "gets" ||
                     what == "connect" || what == "wait";
  if (colon == nullptr || !known || count < 1) {
    std::fputs("usage: store_scale HOST:PORT hold|storm|big|gets|connect|wait NUMBER\n", stderr);
    return 2;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const dlaunch::store::Address server{std::string(argv[1], static_cast<std::size_t>(colon - argv[1])),
                                       static_cast<std::uint16_t>(std::strtol(colon + 1, nullptr, 10))};
  try {
    return dlaunch::store::run(server, what, static_cast<std::size_t>(count));
  } catch (const dlaunch::store::StoreError& error) {
    std::fprintf(stderr, "store_scale: %s\n", error.what());
    return 1;
  }
}
