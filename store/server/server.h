// The store's server: PyTorch clients of every generation, dlaunch's agents and HTTP on one port, over an
// injected network. One thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/base/io.h"
#include "store/protocol/limits.h"
#include "store/server/protocol_mux.h"
#include "store/server/session.h"
#include "store/server/table.h"

namespace dlaunch::store {

struct ServerOptions {
  StoreLimits limits = {};
  OldClients old_clients = OldClients::guess;
  AgentAcceptor* agents = nullptr;  // null: agents are rejected; else torchrun's agents are
  HttpHandler* https = nullptr;     // null: only /healthz is answered
  HttpRules http_rules = {};        // of `https`
  StoreKey key = {};                // clients must prove it, if there is one
  PortLimits port = {};
  SecureNetwork* secure = nullptr;  // the server's network, if its connections may be encrypted
  Report report = {};               // gets each rejection and its reason; never ordinary requests
};

struct StoreStats {
  std::uint64_t connections = 0;        // store clients, now
  std::uint64_t undecided = 0;          // connections that have sent nothing yet, now
  std::uint64_t connections_total = 0;  // store clients, ever
  std::uint64_t rejected = 0;           // of those, ended by the server for what they sent
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;                              // as StoreLimits::total_bytes counts
  std::uint64_t unread_bytes = 0;                       // of those, answers that clients have not read
  std::uint64_t waiting = 0;                            // clients in WAIT or BARRIER
  std::uint64_t rounds = 0;                             // new_round() calls
  std::array<std::uint64_t, request_kinds> requests{};  // by RequestKind, ever
};

class StoreServer final : private StoreAcceptor, private TimerHandler {
 public:
  // REQUIRES: all arguments, and the acceptors in `options`, outlive the server.
  StoreServer(Network& network, Timers& timers, Clock& clock, ServerOptions options);
  ~StoreServer() override;  // as close()
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // May be called for several addresses. Fails as Network::listen does.
  Result<Network::Listening> listen(const Address& address);
  Result<Network::Listening> listen_on(int socket);  // as Network::listen_on

  // Ends every store connection and begins with an empty table. Agents stay, and so does the port. A
  // connection of the old round is not accepted again; a new connection is a new client. Until the next
  // round, rejects the addresses `blocked_hosts` (numeric, without port).
  void new_round(std::set<std::string> blocked_hosts = {});

  // Until the next round, clients at this address (numeric, without port) need not prove the store's key.
  void trust(const std::string& host) { mux_.trust(host); }

  // Ends listening and every connection of the server; those of an AgentAcceptor belong to the acceptor.
  void close();

  [[nodiscard]] StoreStats stats() const;

 private:
  struct Connection;

  ConnectionHandler& on_store_connection(ConnId conn, const Address& peer) override;
  [[nodiscard]] std::size_t connections() const override { return connections_.size(); }
  [[nodiscard]] std::size_t connections_of(const std::string& host) const override;
  [[nodiscard]] std::size_t companions_of(const std::string& host) const override;
  [[nodiscard]] std::size_t unauthenticated() const override { return unauthenticated_; }
  bool end_unauthenticated(TimePoint silent_since, const std::string* host) override;
  void take_for_client(Connection& connection);
  void received(Connection& connection, ByteSpan bytes);
  void serve_all(Connection& connection);
  [[nodiscard]] bool is_for_torchrun() const;
  void deliver(Connection* requester, const Table::Outcome& outcome);
  template <class Bytes>
  void send(Connection& connection, const Bytes& bytes);
  [[nodiscard]] std::uint64_t held() const;
  void make_room(Connection& connection);
  Connection* most_unread();
  void on_timer(TimerId timer) override;
  void end_failed();
  void wait_for_silence(Connection& connection);
  void reject(Connection& connection, std::string_view why);
  void drop(Connection& connection, std::string_view why);
  void remove(Connection& connection);
  void start_afresh();

  Network& network_;
  Timers& timers_;
  Clock& clock_;
  const ServerOptions options_;
  RejectionLog rejections_;
  ProtocolMux mux_;
  std::vector<ListenerId> listeners_;
  std::unique_ptr<Table> table_;
  using Connections = std::map<ConnId, std::unique_ptr<Connection>>;
  Connections connections_;
  std::map<std::string, std::size_t> connections_of_host_;  // by host; no entry is 0
  Connections leaving_;                                     // kept until the event that ended them has ended
  Request request_;                                         // the current one; keeps its vectors' memory
  std::uint64_t half_requests_ = 0;                         // bytes that all sessions hold
  TimerId unread_timer_;                                    // runs while answers are unread
  std::size_t unauthenticated_ = 0;                         // connections without a whole request yet
  bool any_failed_ = false;                                 // memory was too short for a connection's answer
  StoreStats totals_;
};

}  // namespace dlaunch::store
