// One end of an encrypted connection, without the connection: bytes from the wire in, bytes for the wire out.
// TLS implements it (store/tls/tls_session.h) if OpenSSL exists; its users do not see OpenSSL.
#pragma once

#include <string>

#include "store/base/bytes.h"
#include "store/base/result.h"

namespace dlaunch::store {

class SecureSession {
 public:
  virtual ~SecureSession() = default;

  // The client's first bytes for the wire, before anything was received.
  virtual std::string begin() = 0;
  // Takes bytes from the wire. Appends the decrypted bytes to `plain`, and the answer for the wire to `wire`,
  // even on failure. After an error the session is unusable.
  virtual Result<void> take(ByteSpan bytes, std::string& plain, std::string& wire) = 0;
  // Both ends have proved their key; seal() may be called only now.
  [[nodiscard]] virtual bool is_up() const = 0;
  // Encrypts, and appends the result to `wire`.
  virtual void seal(ByteSpan plain, std::string& wire) = 0;
};

}  // namespace dlaunch::store
