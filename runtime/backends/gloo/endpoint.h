// One process's end of its connections at one network interface: one thread, one listening socket, and one
// connection to each other process, however many groups use them.
//
// Everybody can connect to the socket. A connection is used only after the peer has proved that it belongs to
// the job (handshake.h). Until then it costs a descriptor for a few seconds, the number of such connections
// is bounded, and no thread waits for them. The endpoint listens as long as it lives, so a foreign connection
// takes no rank's place.
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
#include "runtime/backends/gloo/memory_handover.h"
#include "runtime/backends/gloo/wakeup.h"
#include "runtime/sockets/descriptor.h"
#include "runtime/sockets/handshake.h"
#include "runtime/sockets/pending_connections.h"

namespace dlaunch::internal {

// One group's endpoint. Called on the endpoint's thread with the endpoint's mutex held; must not release it.
class GroupEndpoint {
 public:
  virtual ~GroupEndpoint() = default;
  virtual void on_frame(Connection& connection, const Frame& frame, std::span<const std::byte> bytes) = 0;
  virtual std::shared_ptr<Incoming> find_receive(Connection& connection, const Frame& frame) = 0;
  // The group's memory on this host, which this process makes if need be. The group keeps the descriptor. -1:
  // it is not shared.
  virtual int memory_file() = 0;
  // `why`: a sentence about the peer process.
  virtual void on_connection_lost(Connection& connection, const std::string& why) = 0;
};

class Endpoint final : private FrameHandler {
 public:
  // Listens at `address` (numeric). Throws DistNetworkError or DistBackendError.
  explicit Endpoint(const std::string& address);
  ~Endpoint() override;  // REQUIRES: no channels
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // False in a forked child.
  [[nodiscard]] bool is_of_this_process() const;
  // The address of this endpoint, for the store, which only members of the job can read.
  [[nodiscard]] const Contact& contact() const { return contact_; }
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

  // From now on frames for the context id go to the group. REQUIRES, as remove(): the mutex is held.
  ContextId add(GroupEndpoint& group);
  void remove(ContextId context_id);

  // The connection with that process. One of the two sides connects, the other waits for it. Both call
  // `check` now and then. Both throw DistNetworkError when that process cannot be reached or the deadline has
  // passed, and what `check` throws.
  std::shared_ptr<Connection> connection_with(const Contact& there, Deadline deadline,
                                              const LossCheck& check);

  // The memory of group `there.context_id`, from a process of this host: request_memory() of
  // memory_handover.h.
  Descriptor memory_from(const Contact& there, Deadline deadline, const LossCheck& check) const {
    return request_memory(there, contact_.id, deadline, check);
  }

  // The process on the other side has ended, which the connection may not show for long: it is lost once what
  // has come is read. REQUIRES: the mutex is held.
  void report_end(const Connection& connection);

  // Ends all connections, as the end of the process would. For tests.
  void disconnect_all();

  // Marks a wait. Only during such waits does the endpoint look for hosts that do not answer.
  class ActiveWait;

  // Returns when no thread uses the message's memory without the mutex. REQUIRES: `memory` is null, so that
  // no thread begins to use it.
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
  void accept_connections(EndpointLock& lock, const Descriptor& listener, PendingConnections& pending);
  void authenticate(EndpointLock& lock, std::uint64_t pending);
  void authenticate_on_host(std::uint64_t pending);
  void watch_listeners(std::uint32_t events);
  void write_pending(EndpointLock& lock);
  void check_keepalives();
  void drop_ended(EndpointLock& lock);
  void add_connection(Descriptor socket, const ProcessId& peer);
  void drop(const std::shared_ptr<Connection>& connection, const std::string& why);
  std::shared_ptr<Connection> find(const ProcessId& peer);
  std::shared_ptr<Connection> await_connection(const Contact& there, Deadline deadline,
                                               const LossCheck& check);

  Contact contact_;
  const Descriptor poll_;
  const Descriptor wakeup_fd_;
  const Descriptor listener_;
  const Descriptor host_listener_;  // for processes of this host; not open: this one shares no memory
  const int made_in_;               // process

  std::mutex mutex_;
  // protected by mutex_
  std::uint64_t last_token_ = 0;
  PendingConnections pending_connections_;
  PendingConnections pending_on_host_;
  MemoryRequests memory_requests_;
  std::optional<Deadline> closed_until_;  // no connections are accepted until then
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // by token
  std::map<ProcessId, std::shared_ptr<Connection>> by_peer_;
  std::set<ProcessId> lost_peers_;    // that have not reconnected
  std::vector<std::uint64_t> turns_;  // of connections that must write
  std::vector<std::uint64_t> ended_;  // connections whose processes have ended
  std::unordered_map<ContextId, GroupEndpoint*> groups_;
  ContextId last_context_id_ = 0;
  std::condition_variable arrived_;  // a connection has arrived
  std::condition_variable memory_free_;
  int memory_awaited_ = 0;
  int waiting_ = 0;          // threads
  std::uint64_t waits_ = 0;  // in all
  std::uint64_t waits_seen_ = 0;
  Deadline next_check_;
  bool sleeps_ = false;  // until an event comes
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

}  // namespace dlaunch::internal
