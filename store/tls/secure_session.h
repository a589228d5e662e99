// One end of an encrypted connection, without the connection: bytes from the wire in, bytes for the wire out.
// TLS implements it (store/tls/tls_session.h) where OpenSSL is there; its users do not see OpenSSL.
#pragma once

#include <string>

#include "store/base/bytes.h"
#include "store/base/result.h"

namespace dlaunch {

class SecureSession {
 public:
  virtual ~SecureSession() = default;

  // For the wire, before anything was received: what a client begins with.
  virtual std::string begin() = 0;
  // Takes bytes from the wire. What they say is appended to `plain`, what is to be sent in return to `wire`,
  // also if this fails. After an error the session is of no use.
  virtual Result<void> take(ByteSpan bytes, std::string& plain, std::string& wire) = 0;
  // Both ends have proved their key; only now may seal() be called.
  [[nodiscard]] virtual bool is_up() const = 0;
  // Encrypts, and appends it to `wire`.
  virtual void seal(ByteSpan plain, std::string& wire) = 0;
};

}  // namespace dlaunch
