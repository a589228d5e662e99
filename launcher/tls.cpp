#include "launcher/tls.h"

#include "launcher/values.h"
#include "store/key_proof.h"
#ifdef DLAUNCH_HAS_TLS
#include "store/tls/tls_session.h"
#endif

namespace dlaunch::launcher {
#ifdef DLAUNCH_HAS_TLS

Result<void> check_tls(bool wanted, const std::string& secret) {
  if (wanted && secret.empty())
    return usage("--tls needs a secret", "its keys come from it", "give --token-file");
  return {};
}

SecureNetwork::Sessions tls_sessions(const std::string& secret) {
  const auto client = make_tls_client(tls_key_of_agents(secret));
  const auto server = make_tls_server({tls_key_of_agents(secret), tls_key_of_store(store_key(secret))});
  return {[client] { return make_tls_session(client); }, [server] { return make_tls_session(server); }};
}

SecureNetwork::Sessions tls_store_sessions(const std::string& secret) {
  const auto server = make_tls_server({tls_key_of_store(store_key(secret))});
  return {{}, [server] { return make_tls_session(server); }};
}

std::function<Result<std::unique_ptr<SecureSession>>()> tls_client(const std::string& store_key) {
  const auto side = make_tls_client(tls_key_of_store(store_key));
  return [side]() -> Result<std::unique_ptr<SecureSession>> { return make_tls_session(side); };
}

#else

namespace {

Error without_openssl() {
  return {ErrorKind::refused, "--tls cannot be had", "", "this dlaunch was built without OpenSSL",
          "build it with libssl-dev installed"};
}

}  // namespace

Result<void> check_tls(bool wanted, const std::string&) {
  if (wanted) return without_openssl();
  return {};
}

SecureNetwork::Sessions tls_sessions(const std::string&) { return {}; }

SecureNetwork::Sessions tls_store_sessions(const std::string&) { return {}; }

std::function<Result<std::unique_ptr<SecureSession>>()> tls_client(const std::string&) {
  return []() -> Result<std::unique_ptr<SecureSession>> { return without_openssl(); };
}

#endif

}  // namespace dlaunch::launcher
