// TLS for agents and for the store's connections, if this dlaunch was built with OpenSSL.
//
// OpenSSL is linked into a second program of the same sources, beside libdlaunch's modules. In the first one
// its 19,000 relocations would cost each start 110 page faults, a fifth of the time of a short job
// (bench/README.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/base/result.h"
#include "store/server/secure_network.h"

namespace dlaunch::launcher {

// Continues as the program that has OpenSSL, with the same command line (`arguments[0]`: the program's name).
// In that program itself it returns at once; otherwise it returns only with an error. `secret_variable`: what
// take_secret_variable() returned; the other program takes it again. REQUIRES: the environment and the
// descriptors are as the process got them, and no other thread runs.
Result<void> continue_with_tls(std::vector<std::string> arguments, const std::string& secret_variable);

// An error if --tls is not available: without a secret, or without OpenSSL.
Result<void> check_tls(bool wanted, const std::string& secret);

// For agents, whose port is also the store's. REQUIRES: check_tls.
SecureNetwork::Sessions tls_sessions(const std::string& secret);

// For a standalone store, which makes no connections. REQUIRES: check_tls.
SecureNetwork::Sessions tls_store_sessions(const std::string& secret);

// For a store's client.
std::function<Result<std::unique_ptr<SecureSession>>()> tls_client(const std::string& store_key);

}  // namespace dlaunch::launcher
