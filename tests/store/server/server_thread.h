// A store server on a thread of its own, whose reports a test can read.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/client/tcp_store.h"
#include "store/server/store_host.h"

namespace dlaunch::test {

using namespace store;

class ServerThread {
 public:
  explicit ServerThread(ServerOptions options = {}, const std::string& host = "127.0.0.1",
                        std::uint16_t port = 0)
      : host_(host) {
    options.report = [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      reports_.push_back(sentence);
    };
    auto started = StoreHost::start({host, port}, std::move(options));
    if (!started) throw StoreError(started.error());
    server_ = std::move(*started);
  }

  [[nodiscard]] Address address() const { return {host_, port()}; }
  [[nodiscard]] const std::vector<Address>& addresses() const { return server_->addresses(); }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }

  [[nodiscard]] TcpStoreOptions client_options(Dialect dialect = Dialect::v2_2) const {
    TcpStoreOptions options;
    options.server = address();
    options.timeout = std::chrono::seconds(60);
    options.dialect = dialect;
    return options;
  }

  // Runs `work` on the server's thread and waits until it has run.
  void on_loop(const std::function<void(StoreServer&)>& work) { server_->run(work); }
  StoreStats stats() { return server_->stats(); }
  // Returns when the server's numbers satisfy the condition: tests wait for this instead of sleeping.
  void until(const std::function<bool(const StoreStats&)>& condition) {
    while (!condition(stats())) std::this_thread::yield();
  }
  std::vector<std::string> reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

 private:
  std::string host_;
  std::mutex mutex_;
  std::vector<std::string> reports_;   // protected by mutex_
  std::unique_ptr<StoreHost> server_;  // last, since it reports until it is destroyed
};

}  // namespace dlaunch::test
