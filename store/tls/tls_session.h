// TLS 1.3 over OpenSSL with pre-shared keys and ephemeral Diffie-Hellman: no certificates, and a recording
// stays secret even from those who learn the key later. Not thread-safe; sessions are independent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/tls/secure_session.h"

namespace dlaunch::store {

// A key of both ends, and its name, which is sent.
struct TlsKey {
  std::string identity;
  std::string key;  // 32 bytes
};

// The keys that encrypt a store's clients (from the store's key) or agents (from the job's secret).
TlsKey tls_key_of_store(const std::string& store_key);
TlsKey tls_key_of_agents(const std::string& secret);

// What all sessions of one side share.
class TlsSide;

// The client's end, with its one key; the server's end, with all keys that it accepts.
std::shared_ptr<TlsSide> make_tls_client(TlsKey key);
std::shared_ptr<TlsSide> make_tls_server(std::vector<TlsKey> keys);

std::unique_ptr<SecureSession> make_tls_session(const std::shared_ptr<TlsSide>& side);

}  // namespace dlaunch::store
