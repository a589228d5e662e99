// PyTorch's TCPStore protocol as values: requests and answers, and their bytes on the wire.
//
// A request is a type byte and a body; integers are little-endian, texts are preceded by their length (u64).
// There are three numberings of the types, and only the last one announces itself:
//
//   dialect   PyTorch     types                                                              greeting
//   v1_13     1.13, 2.0   0 SET .. 6 GETNUMKEYS, 7 WATCH_KEY, 8 DELETE_KEY                     none
//   v2_1      2.1         0 SET .. 6 GETNUMKEYS, 7 DELETE_KEY, 8 APPEND .. 11 CANCEL_WAIT      none
//   v2_2      2.2 and on  0 VALIDATE, 1 SET .. 7 GETNUMKEYS, 8 DELETE_KEY, 9 APPEND .. 18 BARRIER  VALIDATE
//
// Everything here is pure: no I/O, no state beside the arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/bytes.h"
#include "store/base/shared_bytes.h"
#include "store/protocol/limits.h"

namespace dlaunch::store {

enum class Dialect : std::uint8_t {
  before_2_2,  // 1.13 or 2.1: not known yet
  v1_13,
  v2_1,
  v2_2,
};

// In the order of v2_2's type bytes.
enum class RequestKind : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  num_keys,
  delete_key,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_len,
  list_keys,
  barrier,
  watch_key,  // v1_13 only
};
inline constexpr std::size_t request_kinds = static_cast<std::size_t>(RequestKind::watch_key) + 1;
std::string_view name_of(RequestKind kind);  // "compare_set"

inline constexpr std::uint32_t validate_magic = 0x3C85F7CE;

// A PING's answer repeats its number. A dlaunch server answers this number with the next one, so that
// dlaunch's client recognizes it. PyTorch's clients send their process number, which is never that large.
//
// After that, the server answers this connection's ADD with a byte: answer_ready and the sum, or the reason
// of a rejection. PyTorch's clients expect only the sum, so their connection ends instead. A change of this
// meaning needs a new number: the two sides may have different versions.
inline constexpr std::uint32_t ping_of_dlaunch = 0x00D1A0C6;
inline constexpr std::uint32_t pong_of_dlaunch = ping_of_dlaunch + 1;
inline constexpr std::uint8_t last_request_byte = 18;  // no dialect has a type beyond

// Answers of one byte.
inline constexpr std::uint8_t answer_ready = 0;
inline constexpr std::uint8_t answer_not_ready = 1;
inline constexpr std::uint8_t answer_no_number = 1;   // ADD of dlaunch's client: the value is not a number
inline constexpr std::uint8_t answer_store_full = 2;  // ADD of dlaunch's client
inline constexpr std::uint8_t answer_stop_waiting = 0;
inline constexpr std::uint8_t answer_wait_cancelled = 1;
inline constexpr std::uint8_t answer_watching = 3;

enum class WatchEvent : std::uint8_t { updated, created, deleted };

// The kind determines which fields are used. The texts belong to the caller who made the request.
struct Request {
  RequestKind kind = RequestKind::num_keys;
  std::string_view key;
  std::string_view value;                // SET, APPEND, QUEUE_PUSH; COMPARE_SET's desired value
  std::string_view expected;             // COMPARE_SET
  std::int64_t number = 0;               // ADD: amount; BARRIER: world size; PING: nonce; VALIDATE: magic
  std::vector<std::string_view> keys;    // CHECK, WAIT, MULTI_GET, MULTI_SET
  std::vector<std::string_view> values;  // MULTI_SET, one a key
};

struct Decoded {
  enum class Status {
    whole,            // `request` holds it
    more,             // valid so far; do not try again before `size` bytes have come
    silence_decides,  // before_2_2: DELETE_KEY (in `request`) if nothing follows, APPEND's beginning
                      // otherwise
    bad,              // `why` has the reason
  };
  Status status = Status::bad;
  std::size_t size = 0;  // whole, silence_decides: the request's length
  std::string_view why;
  Dialect dialect = Dialect::v2_2;  // the one given, or the one that this request reveals
};

// Decodes the request that `bytes` begins with. Its texts point into `bytes`; `request` is overwritten, its
// vectors keep their memory. Allocates only in proportion to the bytes present.
Decoded decode(Dialect dialect, ByteSpan bytes, const StoreLimits& limits, Request& request);

// The type byte. None: the dialect has no such request.
std::optional<std::uint8_t> type_byte(Dialect dialect, RequestKind kind);

// Appends the request; false if the dialect has no such request: then it appends nothing.
bool encode(Dialect dialect, const Request& request, std::string& out);

// The answer to a request. The texts belong to the caller who made the answer.
struct Answer {
  // One text; if `shared` is set, its bytes are those.
  struct Text {
    Text() = default;
    Text(std::string_view text) : bytes(text) {}  // NOLINT(google-explicit-constructor)
    Text(const char* text) : bytes(text) {}       // NOLINT(google-explicit-constructor)
    Text(const SharedBytes& value)
        : bytes(value.view()), shared(&value) {}  // NOLINT(google-explicit-constructor)
    std::string_view bytes;
    const SharedBytes* shared = nullptr;
  };
  enum class Kind {
    none,     // no answer, or not yet
    byte,     // u8
    nonce,    // u32
    number,   // i64
    sum,      // u8 answer_ready, i64
    bytes,    // a text
    many,     // texts; the client knows their count
    listed,   // i64 count, that many texts
    popped,   // i64 length of the queue; a text if it is not 0
    refused,  // the server closes the connection; `bytes` has the reason
  };
  Kind kind = Kind::none;
  std::int64_t number = 0;  // byte, nonce and popped too
  Text bytes;
  std::vector<Text> texts;
};

// Calls emit for the pieces of the answer in order: with a ByteSpan, or with a text's SharedBytes.
template <class Emit>
void encode(const Answer& answer, Emit&& emit) {
  const auto raw = [&](const auto& value) { emit(std::as_bytes(std::span(&value, 1))); };
  const auto text = [&](const Answer::Text& value) {
    raw(static_cast<std::uint64_t>(value.bytes.size()));
    if (value.shared != nullptr) return emit(*value.shared);
    if (!value.bytes.empty()) emit(as_byte_span(value.bytes));
  };
  switch (answer.kind) {
    case Answer::Kind::none:
    case Answer::Kind::refused:
      return;
    case Answer::Kind::byte:
      return raw(static_cast<std::uint8_t>(answer.number));
    case Answer::Kind::nonce:
      return raw(static_cast<std::uint32_t>(answer.number));
    case Answer::Kind::sum:
      raw(answer_ready);
      return raw(answer.number);
    case Answer::Kind::number:
      return raw(answer.number);
    case Answer::Kind::bytes:
      return text(answer.bytes);
    case Answer::Kind::popped:
      raw(answer.number);
      if (answer.number > 0) text(answer.bytes);
      return;
    case Answer::Kind::listed:
      raw(static_cast<std::int64_t>(answer.texts.size()));
      [[fallthrough]];
    case Answer::Kind::many:
      for (const Answer::Text& one : answer.texts) text(one);
      return;
  }
}

}  // namespace dlaunch::store
