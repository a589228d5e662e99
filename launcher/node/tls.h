// TLS of agents and of the store's connections, if this dlaunch was built with OpenSSL.
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
// Returns at once in that program itself; otherwise an error. `secret_variable`: what take_secret_variable()
// returned, which the other program takes anew. REQUIRES: nothing else of the environment or of the
// descriptors has been used up, no other thread runs.
Result<void> continue_with_tls(std::vector<std::string> arguments, const std::string& secret_variable);

// An error if --tls cannot be had: without a secret, or without OpenSSL.
Result<void> check_tls(bool wanted, const std::string& secret);

// Of agents, whose port is the store's as well. REQUIRES: check_tls.
SecureNetwork::Sessions tls_sessions(const std::string& secret);

// Of a store that stands alone: no connections of its own. REQUIRES: check_tls.
SecureNetwork::Sessions tls_store_sessions(const std::string& secret);

// Of a store's client.
std::function<Result<std::unique_ptr<SecureSession>>()> tls_client(const std::string& store_key);

}  // namespace dlaunch::launcher
