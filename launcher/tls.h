// TLS of agents and of the store's connections, if this dlaunch was built with OpenSSL.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/base/result.h"
#include "store/secure_network.h"

namespace dlaunch::launcher {

// An error if --tls cannot be had: without a secret, or without OpenSSL.
Result<void> check_tls(bool wanted, const std::string& secret);

// Of agents, whose port is the store's as well. REQUIRES: check_tls.
SecureNetwork::Sessions tls_sessions(const std::string& secret);

// Of a store that stands alone: no connections of its own. REQUIRES: check_tls.
SecureNetwork::Sessions tls_store_sessions(const std::string& secret);

// Of a store's client.
std::function<Result<std::unique_ptr<SecureSession>>()> tls_client(const std::string& store_key);

}  // namespace dlaunch::launcher
