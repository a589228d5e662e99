// How a store's client and server prove to each other that they know the store's key, without sending it:
// each answers a nonce of the other. Pure.
//
//   client   opening: the 8 bytes of key_greeting, and its nonce
//   server   challenge: its nonce, HMAC(key, "dlaunch store server" + both)
//   client   proof: HMAC(key, "dlaunch store client" + both), and then the store's protocol
//
// A recording of one connection is useless on another. Later bytes are neither signed nor encrypted.
#pragma once

#include <string>
#include <string_view>

#include "store/base/bytes.h"
#include "store/base/hmac.h"
#include "store/base/result.h"

namespace dlaunch::store {

// No store request, no agent's opening and no HTTP request begins with these bytes.
inline constexpr std::byte key_first_byte{0xD2};
inline constexpr std::string_view key_greeting = "\xD2STOREK\x01";  // the last byte is the version
inline constexpr std::size_t key_nonce_size = 32;
inline constexpr std::size_t key_opening_size = key_greeting.size() + key_nonce_size;
inline constexpr std::size_t key_challenge_size = key_nonce_size + mac_size;

// The key of a job's store: its holder does not learn the job's secret from it.
std::string store_key(const std::string& secret);

class KeyClient {
 public:
  // `nonce`: key_nonce_size unpredictable bytes.
  KeyClient(std::string key, std::string nonce) : key_(std::move(key)), nonce_(std::move(nonce)) {}

  [[nodiscard]] std::string opening() const { return std::string(key_greeting).append(nonce_); }
  // The proof; an error of kind refused if the server does not know the key.
  [[nodiscard]] Result<std::string> answer(std::string_view challenge) const;

 private:
  std::string key_;
  std::string nonce_;
};

class KeyServer {
 public:
  KeyServer(std::string key, std::string nonce) : key_(std::move(key)), nonce_(std::move(nonce)) {}

  enum class Verdict {
    undecided,  // more bytes are needed
    proven,     // the rest of the bytes is the store's protocol
    refused,    // why() returns the reason
  };
  // Takes its part from the front of `bytes`, which may come in any pieces. Appends the answer to `answer`.
  Verdict take(ByteSpan& bytes, std::string& answer);
  [[nodiscard]] std::string_view why() const { return why_; }

 private:
  Verdict refuse(std::string_view why);
  bool fill(ByteSpan& bytes, std::size_t size);

  std::string key_;
  std::string nonce_;
  std::string theirs_;  // the client's nonce, once its opening is whole
  std::string partial_;
  std::string_view why_;
};

}  // namespace dlaunch::store
