// How two processes of a job prove to each other, when they connect, that they belong to the job. Pure.
//
// Each process draws a key of 32 bytes for its listening socket, and publishes the key with its address in
// the store, which the job's secret protects. The connecting process proves that it knows the key by a MAC
// (HMAC-SHA-256) of nonces that both sides have drawn for this connection; so does the listener. Neither the
// key nor anything of use on another connection is sent. Later bytes are neither signed nor encrypted.
//
//   connecting               listening
// Opening          ->                        magic, receiver's id, sender's id, a nonce
//                  <-      Challenge         a nonce, MAC("listening" ...)
//   Answer           ->                        MAC("connecting" ...)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::internal {

// One group in one process, by the number that the process at the other end uses.
using ContextId = std::uint32_t;

// Drawn for each listening socket.
using ProcessId = std::string;
inline constexpr std::size_t process_id_size = 16;  // bytes
inline constexpr std::size_t key_size = 32;         // bytes
inline constexpr std::size_t nonce_size = 32;       // bytes

// The address of a rank of a group.
struct Contact {
  ProcessId id;
  std::string address;  // numeric
  std::uint16_t port = 0;
  std::string key;
  ContextId context_id = 0;
  int ranks = 0;  // the group's size in this rank's view

  bool operator==(const Contact&) const = default;
};

std::string to_text(const Contact& contact);
// Reads what to_text() has written; none: anything else.
std::optional<Contact> parse_contact(const std::string& text);

inline constexpr std::size_t opening_size = 8 + 2 * process_id_size + nonce_size;
inline constexpr std::size_t challenge_size = nonce_size + 32;
inline constexpr std::size_t answer_size = 32;

// The side that connects.
class ClientHandshake {
 public:
  // `id`: this process's.
  ClientHandshake(const Contact& there, const ProcessId& id);

  // opening_size bytes.
  [[nodiscard]] const std::string& opening() const { return opening_; }
  // answer_size bytes; none: the peer does not know the key. REQUIRES: challenge_size bytes.
  [[nodiscard]] std::optional<std::string> answer_to(std::string_view challenge) const;

 private:
  const std::string key_;
  const std::string opening_;
};

// The side that listens.
class ServerHandshake {
 public:
  // The first bytes of every opening; other connections need not be read further.
  static bool may_begin(std::string_view bytes);

  // None: not an opening, or one for another process. REQUIRES: opening_size bytes.
  static std::optional<ServerHandshake> begin(std::string_view opening, const ProcessId& id,
                                              const std::string& key);

  // The id that the peer claims.
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

}  // namespace dlaunch::internal
