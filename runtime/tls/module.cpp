// The module tls.so: libdlaunch.so loads it where the job's store is encrypted, since it does not link
// OpenSSL.

#include <string>
#include <type_traits>

#include "store/tls/tls_client.h"
#include "store/tls/tls_session.h"

using namespace dlaunch::store;

extern "C" __attribute__((visibility("default"))) SecureSession* dlaunch_tls_client_session(
    const char* store_key, std::size_t size) {
  const auto side = make_tls_client(tls_key_of_store(std::string(store_key, size)));
  return make_tls_session(side).release();
}

static_assert(std::is_same_v<decltype(&dlaunch_tls_client_session), TlsClientSession>);
