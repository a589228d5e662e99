#include "store/server/store_host.h"

#include <future>
#include <system_error>
#include <utility>

namespace dlaunch::store {

Result<std::unique_ptr<StoreHost>> StoreHost::start(const Address& address, ServerOptions options) {
  return start([&](StoreServer& server) { return server.listen(address); }, std::move(options));
}

Result<std::unique_ptr<StoreHost>> StoreHost::start_on(int socket, ServerOptions options) {
  return start([socket](StoreServer& server) { return server.listen_on(socket); }, std::move(options));
}

Result<std::unique_ptr<StoreHost>> StoreHost::start(const Listen& listen, ServerOptions options) {
  try {
    std::unique_ptr<StoreHost> host(new StoreHost(std::move(options)));
    auto listening = listen(host->server_);
    if (!listening) return std::move(listening).error();
    host->listening_ = std::move(*listening);
    host->thread_ = std::thread([loop = &host->loop_] { loop->run(); });
    return host;
  } catch (const std::system_error& e) {
    return Error{ErrorKind::io, "cannot start a store server", "", e.what(), ""};
  }
}

StoreHost::StoreHost(ServerOptions options) : server_(loop_, loop_, loop_, std::move(options)) {}

StoreHost::~StoreHost() {
  if (!thread_.joinable()) return;
  loop_.post([this] {
    server_.close();
    loop_.stop();
  });
  thread_.join();
}

void StoreHost::run(const std::function<void(StoreServer&)>& work) {
  const auto done = std::make_shared<std::promise<void>>();  // it must outlive set_value, not only the wait
  loop_.post([this, &work, done] {
    work(server_);
    done->set_value();
  });
  done->get_future().wait();
}

StoreStats StoreHost::stats() {
  StoreStats stats;
  run([&](const StoreServer& server) { stats = server.stats(); });
  return stats;
}

}  // namespace dlaunch::store
