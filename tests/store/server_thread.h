// A store server on a loop in a thread of its own, for tests with real sockets.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/base/uv_loop.h"
#include "store/server.h"
#include "store/tcp_store.h"

namespace dlaunch::test {

class ServerThread {
 public:
  explicit ServerThread(ServerOptions options = {}, const std::string& host = "127.0.0.1",
                        std::uint16_t port = 0) {
    options.report = [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      reports_.push_back(sentence);
    };
    server_.emplace(loop_, loop_, loop_, std::move(options));
    auto listening = server_->listen({host, port});
    if (!listening) throw StoreError(listening.error());
    port_ = listening->port;
    addresses_ = listening->addresses;
    host_ = host;
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServerThread() {
    loop_.post([this] {
      server_->close();
      loop_.stop();
    });
    thread_.join();
    server_.reset();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  [[nodiscard]] Address address() const { return {host_, port_}; }
  [[nodiscard]] const std::vector<Address>& addresses() const { return addresses_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

  [[nodiscard]] TcpStoreOptions client_options(Dialect dialect = Dialect::v2_2) const {
    TcpStoreOptions options;
    options.server = address();
    options.timeout = std::chrono::seconds(60);
    options.dialect = dialect;
    return options;
  }

  // Runs `work` on the loop's thread and waits for its end.
  void on_loop(const std::function<void(StoreServer&)>& work) {
    std::mutex mutex;
    std::condition_variable done_changed;
    bool done = false;
    loop_.post([&] {
      work(*server_);
      const std::lock_guard lock(mutex);
      done = true;
      done_changed.notify_one();
    });
    std::unique_lock lock(mutex);
    done_changed.wait(lock, [&] { return done; });
  }
  StoreStats stats() {
    StoreStats stats;
    on_loop([&](StoreServer& server) { stats = server.stats(); });
    return stats;
  }
  // Returns when the server's numbers satisfy the condition: what a test waits for instead of sleeping.
  void until(const std::function<bool(const StoreStats&)>& condition) {
    while (!condition(stats())) std::this_thread::yield();
  }
  std::vector<std::string> reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

 private:
  UvLoop loop_;
  std::optional<StoreServer> server_;
  std::thread thread_;
  std::string host_;
  std::uint16_t port_ = 0;
  std::vector<Address> addresses_;
  std::mutex mutex_;
  std::vector<std::string> reports_;  // protected by mutex_
};

}  // namespace dlaunch::test
