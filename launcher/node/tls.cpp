#include "launcher/node/tls.h"

#include "launcher/flags/value_parsers.h"
#include "store/protocol/key_proof.h"
#ifdef DLAUNCH_HAS_TLS
#include "store/tls/tls_session.h"
#else
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#endif

namespace dlaunch::launcher {
#ifdef DLAUNCH_HAS_TLS

Result<void> continue_with_tls(std::vector<std::string>, const std::string&) { return {}; }

Result<void> check_tls(bool wanted, const std::string& secret) {
  if (wanted && secret.empty())
    return usage("--tls needs a secret", "its keys are derived from it", "give --token-file");
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
#ifdef DLAUNCH_TLS_PROGRAM
  return {ErrorKind::internal, "--tls is not available", "", "this program has no OpenSSL", ""};
#else
  return {ErrorKind::refused, "--tls is not available", "", "this dlaunch was built without OpenSSL",
          "build it with libssl-dev installed"};
#endif
}

}  // namespace

#ifdef DLAUNCH_TLS_PROGRAM

Result<void> continue_with_tls(std::vector<std::string> arguments, const std::string& secret_variable) {
  std::error_code failed;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  // As installed; otherwise as in the build directory.
  auto program = folder / DLAUNCH_TLS_PROGRAM;
  if (!std::filesystem::exists(program, failed)) program = folder / "../lib/dlaunch/dlaunch";
  program = program.lexically_normal();
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (!secret_variable.empty()) setenv("DLAUNCH_TOKEN", secret_variable.c_str(), 1);
  execv(program.c_str(), words.data());
  return Error{ErrorKind::not_found, "--tls is not available: cannot run", program.string(),
               std::strerror(errno), "install dlaunch with the programs and modules in its library folder"};
}

#else

Result<void> continue_with_tls(std::vector<std::string>, const std::string&) { return without_openssl(); }

#endif

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
