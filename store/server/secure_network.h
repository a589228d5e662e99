// A network whose connections may be encrypted, over another network: all that it connects, and those
// accepted ones for which secure() is called. Everything else passes through.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "store/base/io.h"
#include "store/tls/secure_session.h"

namespace dlaunch::store {

class SecureNetwork final : public Network {
 public:
  using MakeSession = std::function<std::unique_ptr<SecureSession>()>;
  struct Sessions {
    MakeSession client;  // of connect(); none: not encrypted
    MakeSession server;  // of secure(); none: it is not called
  };

  // REQUIRES: `inner` and `timers` outlive it.
  SecureNetwork(Network& inner, Timers& timers, Sessions sessions)
      : inner_(inner), timers_(timers), sessions_(std::move(sessions)) {}
  ~SecureNetwork() override;
  SecureNetwork(const SecureNetwork&) = delete;
  SecureNetwork& operator=(const SecureNetwork&) = delete;

  // From now on `conn`, whose peer has sent `bytes`, is encrypted. `handler` gets the decrypted bytes of
  // these and later ones, and on_closed if the peer cannot prove a key.
  void secure(ConnId conn, ByteSpan bytes, ConnectionHandler& handler);
  [[nodiscard]] bool is_secure(ConnId conn) const { return conns_.contains(conn); }

  Result<Listening> listen(const Address& address, ListenerHandler& handler) override {
    return inner_.listen(address, handler);
  }
  Result<Listening> listen_on(int socket, ListenerHandler& handler) override {
    return inner_.listen_on(socket, handler);
  }
  void unlisten(ListenerId listener) override { inner_.unlisten(listener); }
  // on_connected follows when both ends have proved their key, which must also happen before `deadline`.
  ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) override;
  void hand_over(ConnId conn, ConnectionHandler& handler) override;
  void send(ConnId conn, ByteSpan bytes) override;
  void send_shared(ConnId conn, const SharedBytes& bytes) override;
  std::size_t unsent(ConnId conn) const override { return inner_.unsent(conn); }
  std::size_t unsent_memory(ConnId conn) const override { return inner_.unsent_memory(conn); }
  std::size_t unsent_memory() const override { return inner_.unsent_memory(); }
  void pause_reading(ConnId conn, bool paused) override { inner_.pause_reading(conn, paused); }
  void close(ConnId conn) override;
  void abort(ConnId conn) override;
  void drop_remains() override { inner_.drop_remains(); }

 private:
  class Conn;
  Conn* find(ConnId conn);
  void forget(ConnId conn);

  Network& inner_;
  Timers& timers_;
  const Sessions sessions_;
  std::map<ConnId, std::shared_ptr<Conn>> conns_;
};

}  // namespace dlaunch::store
