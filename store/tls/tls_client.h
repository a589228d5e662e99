// What a client of an encrypted store needs, in both builds of TLS: linked into dlaunch, or in libdlaunch's
// module tls.so.
#pragma once

#include <cstddef>

#include "store/tls/secure_session.h"

namespace dlaunch::store {

// The module exports it: makes a client's session with a store's key (mac_size bytes). The caller owns it.
using TlsClientSession = SecureSession* (*)(const char* store_key, std::size_t size);

inline constexpr const char* tls_client_symbol = "dlaunch_tls_client_session";

}  // namespace dlaunch::store
