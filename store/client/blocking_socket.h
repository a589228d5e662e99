// A TCP connection for blocking code: every call has a deadline, none raises a signal. For clients in
// programs without an event loop. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "store/base/address.h"
#include "store/base/bytes.h"
#include "store/base/result.h"
#include "store/client/steady_time.h"
#include "store/tls/secure_session.h"

namespace dlaunch::store {

class BlockingSocket {
 public:
  BlockingSocket() = default;  // not open
  ~BlockingSocket() { close(); }
  BlockingSocket(const BlockingSocket&) = delete;
  BlockingSocket& operator=(const BlockingSocket&) = delete;

  // Failures of the following have kind timeout or network and only `why`; the caller knows the rest. After a
  // failure the connection may have sent or received a part, and may only be closed. Exception: a receive
  // that timed out before any byte came may be repeated.

  // Looks the name up and tries each address once.
  Result<void> connect(const Address& address, TimePoint deadline);
  // Encrypts all later bytes, once both ends have proved their key. REQUIRES: nothing was sent or received
  // yet. Kind refused: the other end has another key.
  Result<void> secure(std::unique_ptr<SecureSession> session, TimePoint deadline);
  Result<void> send(ByteSpan bytes, TimePoint deadline);
  // Exactly `size` bytes.
  Result<void> receive(char* into, std::size_t size, TimePoint deadline);

  void close();
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  Result<void> send_plain(ByteSpan bytes, TimePoint deadline);
  Result<void> receive_plain(char* into, std::size_t size, TimePoint deadline);
  Result<std::size_t> receive_some(char* into, std::size_t most, TimePoint deadline);
  Result<void> take_secured(TimePoint deadline);
  Result<void> await(short events, TimePoint deadline) const;

  int fd_ = -1;
  std::array<char, 4096> buffer_{};  // received and not yet requested
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::unique_ptr<SecureSession> session_;  // none: the connection is not encrypted
  std::string secured_;                     // decrypted bytes
  std::size_t secured_used_ = 0;            // those already returned
};

}  // namespace dlaunch::store
