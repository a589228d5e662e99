// What a client of an encrypted store needs, wherever TLS is: linked into dlaunch, or in libdlaunch's module
// tls.so.
#pragma once

#include <cstddef>

#include "store/tls/secure_session.h"

namespace dlaunch {

// What the module exports: a session of a client with the key of a store (mac_size bytes). It belongs to the
// caller.
using TlsClientSession = SecureSession* (*)(const char* store_key, std::size_t size);

inline constexpr const char* tls_client_symbol = "dlaunch_tls_client_session";

}  // namespace dlaunch
