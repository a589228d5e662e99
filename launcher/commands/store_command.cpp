#include "launcher/commands/store_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "launcher/commands/store_options.h"
#include "launcher/console/command_io.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/port_owner.h"
#include "launcher/machine/process_limits.h"
#include "launcher/node/secret.h"
#include "launcher/node/tls.h"
#include "store/base/address.h"
#include "store/base/log.h"
#include "store/base/overloaded.h"
#include "store/client/error_text.h"
#include "store/client/job_key.h"
#include "store/client/prefix_store.h"
#include "store/client/tcp_store.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"
#include "store/protocol/key_proof.h"
#include "store/server/server.h"
#include "store/server/status_page.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration connecting = std::chrono::seconds(5);

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// --- serving ---

// Logs the server's statistics periodically.
class StatusLines final : public TimerHandler {
 public:
  StatusLines(UvLoop& loop, const StoreServer& server, Duration interval)
      : loop_(loop), server_(server), interval_(interval) {
    if (interval_ > Duration::zero()) timer_ = loop_.arm(loop_.now() + interval_, *this);
  }
  ~StatusLines() override { loop_.disarm(timer_); }
  StatusLines(const StatusLines&) = delete;
  StatusLines& operator=(const StatusLines&) = delete;

  void on_timer(TimerId) override {
    const StoreStats stats = server_.stats();
    std::uint64_t requests = 0;
    for (const std::uint64_t count : stats.requests) requests += count;
    log::info(std::to_string(stats.connections) + " connections, " + std::to_string(stats.keys) + " keys, " +
              std::to_string(stats.bytes) + " bytes, " + std::to_string(stats.waiting) + " waiting, " +
              std::to_string(requests - last_requests_) + " requests in the last " + to_words(interval_));
    last_requests_ = requests;
    timer_ = loop_.arm(loop_.now() + interval_, *this);
  }

 private:
  UvLoop& loop_;
  const StoreServer& server_;
  const Duration interval_;
  TimerId timer_;
  std::uint64_t last_requests_ = 0;
};

int serve(const StoreServe& how, const std::string& secret) {
  raise_descriptor_limit();
  UvLoop loop;
  UvPoller poller(loop);
  log::start("dlaunch store", log::Level::info, isatty(STDERR_FILENO) != 0, [](std::string_view line) {
    std::fwrite(line.data(), 1, line.size(), stderr);  // unbuffered
  });
  SecureNetwork network(loop, loop, how.tls ? tls_store_sessions(secret) : SecureNetwork::Sessions{});
  StatusPage page(loop);
  ServerOptions options;
  options.limits = how.limits;
  options.port = port_limits(0, 0);
  options.https = &page;
  options.http_rules = {{how.address.host, host_name()}, secret};
  options.key = key_of_store(secret, how.tls);
  if (how.tls) options.secure = &network;
  options.report = [](const std::string& sentence) { log::warning(sentence); };
  StoreServer server(network, loop, loop, options);
  page.show(server, how.limits);
  const auto listening = server.listen(how.address);
  if (!listening) {
    return fail(
        name_port_owner(listening.error(), how.address.port)
            .with_hint("choose another --port (0 takes any that is free), or a --host of this machine")
            .message());
  }
  if (secret.empty() && !are_loopback(listening->addresses))
    log::info("no secret: everybody who can connect to " + to_string({how.address.host, listening->port}) +
              " can read and change all keys; set one with --token-file=FILE");
  for (const int signo : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction before {};
    sigaction(signo, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // as nohup sets it
    poller.on_signal(signo, [&loop](int) { loop.stop(); });
  }
  // Scripts read the port from this line.
  const int failed = print("listening on " + to_string({how.address.host, listening->port}) + "\n");
  if (failed != 0) return failed;
  const StatusLines lines(loop, server, how.status_interval);
  loop.run();
  server.close();
  return 0;
}

// --- client ---

std::string value_of(const std::string& word) {
  if (word != "-") return word;
  std::string value;
  char chunk[1 << 16];
  while (true) {
    const ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw StoreError(
          {ErrorKind::io, "cannot read the value from standard input", "", std::strerror(errno), ""});
    }
    if (got == 0) return value;
    value.append(chunk, static_cast<std::size_t>(got));
  }
}

int print_value(const StoreRequest& request, const std::string& text) {
  return print(request.raw ? text : text + "\n");
}

int missing(const StoreRequest& request, std::span<const std::string> keys) {
  return fail("store " + to_string(request.server) + (keys.size() == 1 ? " has no " : " lacks some of ") +
              describe_keys(keys) +
              (request.what == StoreRequest::What::get ? "; --timeout=S waits for it" : ""));
}

int run_request(const StoreRequest& request, Store& store) {
  using What = StoreRequest::What;
  const std::span<const std::string> keys(request.words);
  switch (request.what) {
    case What::get:
      if (request.timeout == Duration::zero() && !store.check(keys)) return missing(request, keys);
      return print_value(request, store.get(keys[0]));
    case What::set:
      store.set(keys[0], value_of(keys[1]));
      store.check(keys.first(1));  // a SET has no answer; this confirms that the server has applied it
      return 0;
    case What::add:
      return print_value(request, std::to_string(store.add(keys[0], request.amount)));
    case What::append:
      store.append(keys[0], value_of(keys[1]));
      store.check(keys.first(1));
      return 0;
    case What::compare_set:
      return print_value(request, store.compare_set(keys[0], keys[1], keys[2]));
    case What::check:
      return store.check(keys) ? 0 : missing(request, keys);
    case What::wait:
      store.wait(keys, request.timeout);
      return 0;
    case What::keys: {
      std::string lines;
      for (const std::string& key : store.list_keys()) lines += key + "\n";
      return print(lines);
    }
    case What::num_keys:
      return print_value(request, std::to_string(store.num_keys()));
    case What::delete_key:
      return store.delete_key(keys[0]) ? 0 : missing(request, keys);
  }
  return exit_error;
}

// A job's workers read the key of its store, and whether it uses TLS, from a file (job_store_key).
int run_client(const StoreRequest& what, const std::string& secret,
               const std::vector<std::string>& command_line) {
  try {
    TcpStoreOptions options;
    options.server = what.server;
    options.timeout = connecting;
    options.dialect = what.dialect;
    const JobKey key = secret.empty() ? job_store_key(what.server) : JobKey{store_key(secret), what.tls};
    options.key = key.key;
    if (key.tls) {
      if (auto can = continue_with_tls(command_line, ""); !can) return fail(can.error());
      options.make_session = tls_client(key.key);
    }
    auto store = std::make_shared<TcpStore>(options);
    store->set_timeout(what.timeout);
    if (what.prefix.empty()) return run_request(what, *store);
    PrefixStore prefixed(what.prefix, store);
    return run_request(what, prefixed);
  } catch (const StoreError& error) {
    return fail(error.what());
  }
}

}  // namespace

int run_store(const std::vector<std::string>& arguments) {
  auto parsed = parse_store_options(arguments, variable);
  if (!parsed) return fail(parsed.error());
  if (const auto* text = std::get_if<PrintAndExit>(&*parsed)) return print(text->text);
  const std::string token_file = std::visit(Overloaded{[](const PrintAndExit&) { return std::string(); },
                                                       [](const auto& how) { return how.token_file; }},
                                            *parsed);
  const bool tls = std::visit(
      Overloaded{[](const PrintAndExit&) { return false; }, [](const auto& how) { return how.tls; }},
      *parsed);
  std::vector<std::string> command_line = {"dlaunch", "store"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  std::string token = take_secret_variable();
  if (tls) {
    if (auto can = continue_with_tls(command_line, token); !can) return fail(can.error());
  }
  const auto secret = read_secret(token_file, std::move(token));
  if (!secret) return fail(secret.error());
  if (auto can = check_tls(tls, *secret); !can) return fail(can.error());
  if (const auto* how = std::get_if<StoreServe>(&*parsed)) return serve(*how, *secret);
  return run_client(std::get<StoreRequest>(*parsed), *secret, command_line);
}

}  // namespace dlaunch::launcher
