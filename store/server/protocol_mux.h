// One port, several protocols: PyTorch's store, dlaunch's agents, HTTP. The first byte of a connection
// selects the protocol, since no two protocols share one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "store/base/io.h"
#include "store/protocol/key_proof.h"
#include "store/server/http_access.h"
#include "store/server/port_limits.h"
#include "store/server/secure_network.h"
#include "store/server/store_access.h"

namespace dlaunch::store {

// The first byte of an agent's opening. No store request has it (their types end at 18) and no HTTP request
// begins with it.
inline constexpr std::byte agent_first_byte{0xD1};

// Accepts the connections of agents.
class AgentAcceptor {
 public:
  virtual ~AgentAcceptor() = default;
  // Returns the connection's new handler, whose on_received gets the first bytes at once.
  virtual ConnectionHandler& on_agent_connection(ConnId conn, const Address& peer) = 0;
  // Ends the oldest earlier connection that has not joined yet. False: there is none.
  virtual bool end_unauthenticated(TimePoint /*came_before*/) { return false; }
};

// Accepts the connections of store clients, in the same way.
class StoreAcceptor {
 public:
  virtual ~StoreAcceptor() = default;
  virtual ConnectionHandler& on_store_connection(ConnId conn, const Address& peer) = 0;
  // The current connections: all, those from one address, and how many silent ones belong to the latter.
  [[nodiscard]] virtual std::size_t connections() const = 0;
  [[nodiscard]] virtual std::size_t connections_of(const std::string& host) const = 0;
  [[nodiscard]] virtual std::size_t companions_of(const std::string& host) const = 0;
  // Those that have not sent a whole greeting or request yet. The second function ends the one that was
  // silent longest, of the host or (null) of any; false: there is none.
  [[nodiscard]] virtual std::size_t unauthenticated() const = 0;
  virtual bool end_unauthenticated(TimePoint silent_since, const std::string* host) = 0;
};

// Answers GET and HEAD for everything but /healthz, which the protocol mux answers.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual HttpAnswer on_http_get(std::string_view path) = 0;
};

// Reports a rejection, in one sentence.
using Report = std::function<void(const std::string& sentence)>;

// Reports each host and reason at most once, so that a port scanner cannot fill the log.
class RejectionLog {
 public:
  explicit RejectionLog(Report report) : report_(std::move(report)) {}
  void rejected(const Address& peer, std::string_view why);

 private:
  Report report_;
  std::unordered_set<std::string> logged_;
  bool full_ = false;
};

// REQUIRES: all arguments outlive it. A protocol whose acceptor is null is rejected.
class ProtocolMux final : public ListenerHandler, private ConnectionHandler, private TimerHandler {
 public:
  ProtocolMux(Network& network, Timers& timers, Clock& clock, RejectionLog& rejections, StoreAcceptor* stores,
              AgentAcceptor* agents, HttpHandler* https, HttpRules http_rules = {}, StoreKey store_key = {},
              PortLimits limits = {}, SecureNetwork* secure = nullptr)
      : network_(network),
        timers_(timers),
        clock_(clock),
        limits_(std::move(limits)),
        rejections_(rejections),
        stores_(stores),
        agents_(agents),
        https_(https),
        http_rules_(std::move(http_rules)),
        access_(std::move(store_key)),
        secure_(secure) {}
  ~ProtocolMux() override { close(); }

  // Connections that have not identified themselves yet are no longer accepted by the store: their requests
  // belong to the round that has ended. They may still use another protocol. The store rejects connections
  // from the addresses `blocked_hosts` while this round lasts. If the store has a key, no address is trusted
  // any more.
  void new_round(std::set<std::string> blocked_hosts) {
    ++round_;
    blocked_hosts_ = std::move(blocked_hosts);
    access_.clear_trusted();
  }

  // Until the next round, the store's clients at this address need not prove its key.
  void trust(const std::string& host) { access_.trust(host); }

  // Ends the connections that are not dispatched yet.
  void close();

  [[nodiscard]] std::size_t undecided() const { return pending_.size(); }

  ConnectionHandler& on_accepted(ConnId conn, const Address& peer) override;

 private:
  struct PendingConnection {
    Address peer;
    std::uint64_t round = 0;
    TimePoint came;
    std::uint64_t number = 0;             // in the order of arrival
    bool counted = true;                  // in pending_of_host_
    std::string http = {};                // the part of an HTTP request that has come
    std::optional<KeyServer> proof = {};  // of the store's key, while under way
    bool has_proved = false;
  };
  using PendingConnections = std::map<ConnId, PendingConnection>;

  void on_received(ConnId conn, ByteSpan bytes) override;
  void on_closed(ConnId conn, const ConnectionEnd& end) override;

  void identify(ConnId conn, PendingConnection& pending, ByteSpan bytes);
  [[nodiscard]] bool is_secure(ConnId conn) const { return secure_ != nullptr && secure_->is_secure(conn); }
  [[nodiscard]] bool must_be_secure(ConnId conn) const { return access_.key().needs_tls && !is_secure(conn); }
  void dispatch_to_store(ConnId conn, const PendingConnection& pending, ByteSpan bytes);
  void take_proof(ConnId conn, PendingConnection& pending, ByteSpan bytes);
  void on_timer(TimerId timer) override;

  [[nodiscard]] std::size_t free_descriptors() const;
  [[nodiscard]] std::size_t budget() const;
  [[nodiscard]] std::size_t spare_of(const std::string& host) const;
  [[nodiscard]] PendingConnections::const_iterator oldest_spare(const std::string& host) const;
  [[nodiscard]] PendingConnections::const_iterator oldest_spare() const;  // of the host with most of them
  void enforce_limits(const std::string& host);
  void enforce_reserve();
  bool end_unauthenticated(TimePoint silent_since);
  std::string_view reason_against_client(const std::string& host);
  void watch_pending();
  void uncount(PendingConnection& pending);
  void forget(ConnId conn);
  void reject(ConnId conn, std::string_view why);
  void dispatch(ConnId conn, ConnectionHandler& handler, ByteSpan bytes);
  void read_http(ConnId conn, PendingConnection& pending, ByteSpan bytes);
  HttpAnswer answer_http(std::string_view head, bool is_own);

  Network& network_;
  Timers& timers_;
  Clock& clock_;
  const PortLimits limits_;
  RejectionLog& rejections_;
  StoreAcceptor* stores_;
  AgentAcceptor* agents_;
  HttpHandler* https_;
  const HttpRules http_rules_;
  StoreAccess access_;
  SecureNetwork* const secure_;  // same as network_ if connections may be encrypted; else null
  std::uint64_t round_ = 0;
  std::set<std::string> blocked_hosts_;
  PendingConnections pending_;
  std::map<std::string, std::size_t> pending_of_host_;  // by host; no entry is 0
  std::uint64_t last_number_ = 0;
  TimerId timer_;  // runs while a silent connection may have to end
};

}  // namespace dlaunch::store
