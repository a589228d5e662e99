// The client of a TCP store: dlaunch's, or PyTorch's of any version. Blocking, over one plain socket; no
// thread of its own.
//
// Keys get the prefix "/" on the wire, as PyTorch's clients do, so both see each other's keys.
//
// If the server ends, the call that notices it fails at once, and every later call fails with the same error:
// a store object never silently joins a second server, nor a second round of the same one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/client/blocking_socket.h"
#include "store/client/store.h"
#include "store/protocol/wire.h"

namespace dlaunch::store {

struct TcpStoreOptions {
  Address server;
  // For connecting; then the store's timeout.
  Duration timeout = std::chrono::seconds(300);
  // v2_2 for dlaunch and PyTorch 2.2 or newer; v2_1, or v1_13 (also 2.0), for older PyTorch servers. The
  // client cannot detect it: an older server misreads the newer greeting.
  Dialect dialect = Dialect::v2_2;
  // If set: this object counts as one of so many workers, by adding 1 to the key "init/". It does not wait
  // for the others.
  std::optional<std::int64_t> world_size = {};
  // The store's key (store/protocol/key_proof.h), which client and server prove to each other; empty: no
  // proof.
  std::string key = {};
  // If set: the connection is encrypted in such a session, which proves the key, too.
  std::function<Result<std::unique_ptr<SecureSession>>()> make_session = {};
};

class TcpStore : public Store {
 public:
  // Connects; tries again with short pauses until the timeout, since the server may not be up yet. Throws
  // StoreError: timeout (with the last attempt's reason), refused (not a dialect; the server has another
  // key), network.
  // another key), network.
  explicit TcpStore(TcpStoreOptions options);

  // For all calls: `timeout` bounds waits for keys. A wait for an answer that the server owes at once takes
  // 10 s at least, since a short timeout concerns keys and not a busy machine. A wait that timed out is
  // cancelled at the server, and the store stays usable.
  using Store::wait;
  void set(std::string_view key,
           std::string_view value) override;  // returns when sent; failures show up later
  std::string get(std::string_view key) override;
  // If the value is not a number: kind invalid, and the store stays usable. (PyTorch's server closes the
  // connection: kind network, also of later calls.)
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  void wait(std::span<const std::string> keys, Duration timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t num_keys() override;  // all of the server's, with "init/"
  bool delete_key(std::string_view key) override;
  void set_timeout(Duration timeout) override;
  [[nodiscard]] Duration timeout() const override;

  std::vector<std::string> multi_get(std::span<const std::string> keys) override;
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override;
  void append(std::string_view key, std::string_view value) override;
  // The rest needs a new server: queues dlaunch's or PyTorch 2.8's, list_keys and barrier dlaunch's or one of
  // 2026. A server that lacks them closes the connection. With a dialect before v2_2, whose servers all lack
  // barrier, barrier uses the other calls.
  void queue_push(std::string_view key, std::string_view value) override;
  std::optional<std::string> queue_pop(std::string_view key, bool block) override;
  std::int64_t queue_len(std::string_view key) override;
  std::vector<std::string> list_keys() override;  // without internal keys such as "init/"
  void barrier(std::string_view key, std::int64_t world_size) override;

  [[nodiscard]] const Address& server() const { return options_.server; }

  // Returns when so many objects have counted as workers (TcpStoreOptions::world_size). Throws StoreError of
  // kind timeout.
  void await_workers(std::int64_t world_size, TimePoint deadline);

 private:
  class Call;

  // Adds so many workers to those that have joined, and returns the sum.
  std::int64_t count_workers(std::int64_t more);
  void connect(TimePoint deadline);
  Result<void> prove(TimePoint deadline);
  Result<void> greet(TimePoint deadline);

  const TcpStoreOptions options_;
  mutable std::mutex mutex_;  // never held while waiting
  std::condition_variable turn_over_;
  // Protected by mutex_:
  bool taken_ = false;  // a call uses the connection
  Duration timeout_;
  // For the call that uses the connection:
  BlockingSocket socket_;
  std::string out_;
  std::optional<Error> lost_;  // the first failure of the connection
  bool greet_with_ping_ = true;
  bool server_is_ours_ = false;  // dlaunch's answers requests that are sent together in their order
};

}  // namespace dlaunch::store
