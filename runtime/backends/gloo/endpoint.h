// A process's end of its connections at one network interface: one thread, one place where it listens, one
// connection to each other process, however many groups use them.
//
// Strangers: everybody can connect. What connects becomes a connection only when it has proved that it
// belongs to the job (handshake.h); until then it costs a descriptor for a few seconds, there are so many of
// them at most, and nobody waits for them. The place stays open for as long as the endpoint lives, so a
// stranger takes no rank's place.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/backends/gloo/connection.h"
#include "runtime/backends/gloo/descriptor.h"
#include "runtime/backends/gloo/handshake.h"
#include "runtime/backends/gloo/pending_connections.h"
#include "runtime/backends/gloo/wakeup.h"

namespace dlaunch {

// One group's end. Called on the endpoint's thread with the endpoint's mutex held; must not let go of it.
class GroupEndpoint {
 public:
  virtual ~GroupEndpoint() = default;
  virtual void on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) = 0;
  virtual std::shared_ptr<Incoming> find_receive(Connection& connection, const Frame& frame) = 0;
  // `why`: a sentence about the process there.
  virtual void on_connection_lost(Connection& connection, const std::string& why) = 0;
};

class Endpoint final : private FrameHandler {
 public:
  // Listens at `address` (numeric). Throws DistNetworkError or DistBackendError.
  explicit Endpoint(const std::string& address);
  ~Endpoint() override;  // REQUIRES: no channels
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Not in a copy that fork() has made.
  [[nodiscard]] bool is_of_this_process() const;
  // Where it is reached; for the store, which only members of the job can read.
  [[nodiscard]] const Contact& contact() const { return contact_; }
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

  // What has come for the channel comes to it from now on. With the mutex held, as remove().
  ContextId add(GroupEndpoint& group);
  void remove(ContextId context_id);

  // The connection with that process. One of the two sides connects, the other waits for it. Both throw
  // DistNetworkError when that process cannot be reached, when the deadline has passed, and what `check`
  // throws, which is asked now and then.
  std::shared_ptr<Connection> connection_with(const Contact& there, Deadline deadline,
                                              const LossCheck& check);

  // Ends all connections, as the end of the process would. For tests.
  void disconnect_all();

  // Around a wait that somebody would miss: hosts that do not answer are noticed only meanwhile.
  class ActiveWait;

  // Returns when no thread uses the message's memory without the mutex. REQUIRES: `memory` is null, so that
  // none begins to.
  void await_memory(EndpointLock& lock, const bool& is_used);

 private:
  void on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) override;
  std::shared_ptr<Incoming> find_receive(Connection& connection, const Frame& frame) override;
  void request_write(Connection& connection) override;
  void request_writable(Connection& connection, bool waits) override;
  void on_memory_released() override;

  void run();
  [[nodiscard]] int poll_timeout_ms();
  void handle(EndpointLock& lock, std::uint64_t token, std::uint32_t events);
  void serve(EndpointLock& lock, const std::shared_ptr<Connection>& connection, std::uint32_t events);
  void accept_connections(EndpointLock& lock);
  void authenticate(EndpointLock& lock, std::uint64_t pending);
  void write_pending(EndpointLock& lock);
  void check_keepalives();
  void add_connection(Descriptor socket, const ProcessId& peer);
  void drop(const std::shared_ptr<Connection>& connection, const std::string& why);
  std::shared_ptr<Connection> find(const ProcessId& peer);
  std::shared_ptr<Connection> await_connection(const Contact& there, Deadline deadline,
                                               const LossCheck& check);

  Contact contact_;
  const Descriptor poll_;
  const Descriptor wakeup_fd_;
  const Descriptor listener_;
  const int made_in_;  // process

  std::mutex mutex_;
  // protected by mutex_
  std::uint64_t last_token_ = 0;
  PendingConnections pending_connections_;
  std::optional<Deadline> closed_until_;                              // nobody is taken in
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // by token
  std::map<ProcessId, std::shared_ptr<Connection>> by_peer_;
  std::set<ProcessId> lost_peers_;    // that have not connected anew
  std::vector<std::uint64_t> turns_;  // of connections that are to write
  std::unordered_map<ContextId, GroupEndpoint*> groups_;
  ContextId last_context_id_ = 0;
  std::condition_variable arrived_;  // a connection
  std::condition_variable memory_free_;
  int memory_awaited_ = 0;
  int waiting_ = 0;          // threads
  std::uint64_t waits_ = 0;  // ever
  std::uint64_t waits_seen_ = 0;
  Deadline next_check_;
  bool sleeps_ = false;  // until something happens
  bool ending_ = false;

  std::thread thread_;  // last: it uses all of the above
};

// With the mutex held.
class Endpoint::ActiveWait {
 public:
  explicit ActiveWait(Endpoint& endpoint);
  ~ActiveWait() { --endpoint_.waiting_; }
  ActiveWait(const ActiveWait&) = delete;
  ActiveWait& operator=(const ActiveWait&) = delete;

 private:
  Endpoint& endpoint_;
};

}  // namespace dlaunch
