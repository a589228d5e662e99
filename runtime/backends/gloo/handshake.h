// How two processes of a job prove to each other, when they connect, that they belong to it. Pure.
//
// Each process draws a key of 32 bytes for where it listens, and publishes it with its address in the store,
// which the job's secret protects. Whoever connects proves that it knows the key by a MAC (HMAC-SHA-256) of
// numbers that both sides have drawn for this connection; so does the listener. Neither the key nor anything
// that could be used a second time travels over the connection. What follows is neither signed nor
// encrypted.
//
//   connecting               listening
//   Opening          ->                        magic, who is meant, who connects, a number
//                    <-      Challenge         a number, MAC("listening" ...)
//   Answer           ->                        MAC("connecting" ...)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/backends/gloo/frame.h"

namespace dlaunch {

// Drawn anew for each place where a process listens.
using ProcessId = std::string;
inline constexpr std::size_t process_id_size = 16;  // bytes
inline constexpr std::size_t key_size = 32;         // bytes
inline constexpr std::size_t nonce_size = 32;       // bytes

// Where a rank of a group is reached.
struct Contact {
  ProcessId id;
  std::string address;  // numeric
  std::uint16_t port = 0;
  std::string key;
  ContextId context_id = 0;
  int ranks = 0;  // of the group, as this one counts them

  bool operator==(const Contact&) const = default;
};

std::string to_text(const Contact& contact);
// What to_text() has written; none: something else.
std::optional<Contact> parse_contact(const std::string& text);

inline constexpr std::size_t opening_size = 8 + 2 * process_id_size + nonce_size;
inline constexpr std::size_t challenge_size = nonce_size + 32;
inline constexpr std::size_t answer_size = 32;

// The side that connects.
class ClientHandshake {
 public:
  // `id`: its own.
  ClientHandshake(const Contact& there, const ProcessId& id);

  // opening_size bytes.
  [[nodiscard]] const std::string& opening() const { return opening_; }
  // answer_size bytes; none: the other side does not know the key. REQUIRES: challenge_size bytes.
  [[nodiscard]] std::optional<std::string> answer_to(std::string_view challenge) const;

 private:
  const std::string key_;
  const std::string opening_;
};

// The side that listens.
class ServerHandshake {
 public:
  // The first bytes of every opening; what begins otherwise need not be read further.
  static bool may_begin(std::string_view bytes);

  // None: it is no opening, or one for another process. REQUIRES: opening_size bytes.
  static std::optional<ServerHandshake> begin(std::string_view opening, const ProcessId& id,
                                              const std::string& key);

  // Who claims to connect.
  [[nodiscard]] const ProcessId& claimed() const { return claimed_; }
  // challenge_size bytes.
  [[nodiscard]] const std::string& challenge() const { return challenge_; }
  [[nodiscard]] bool accepts(std::string_view answer) const;

 private:
  ServerHandshake(std::string_view opening, const std::string& key);

  ProcessId claimed_;
  std::string challenge_;
  std::string wanted_;
};

}  // namespace dlaunch
