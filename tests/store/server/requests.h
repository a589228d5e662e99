// Builders of requests and answers for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/protocol/wire.h"

namespace dlaunch::test {

using namespace store;

using Texts = std::vector<std::string_view>;

inline const std::string greeting = {'\x00', '\xce', '\xf7', '\x85', '\x3c'};

inline Request request(RequestKind kind, std::string_view key = {}, std::string_view value = {}) {
  Request made;
  made.kind = kind;
  made.key = key;
  made.value = value;
  return made;
}
inline Request numbered(RequestKind kind, std::string_view key, std::int64_t number) {
  Request made = request(kind, key);
  made.number = number;
  return made;
}
inline Request compare(std::string_view key, std::string_view expected, std::string_view desired) {
  Request made = request(RequestKind::compare_set, key, desired);
  made.expected = expected;
  return made;
}
inline Request listing(RequestKind kind, Texts keys, Texts values = {}) {
  Request made = request(kind);
  made.keys = std::move(keys);
  made.values = std::move(values);
  return made;
}

inline std::string encoded(const Request& made, Dialect dialect = Dialect::v2_2) {
  std::string bytes;
  encode(dialect, made, bytes);
  return bytes;
}
inline std::string encoded(const Answer& answer) {
  std::string bytes;
  encode(answer, [&](ByteSpan piece) { bytes.append(as_text(piece)); });
  return bytes;
}

inline std::string i64(std::int64_t number) {
  std::string bytes;
  ByteWriter(bytes).i64(number);
  return bytes;
}
inline std::string text(std::string_view value) {
  std::string bytes;
  ByteWriter(bytes).text(value);
  return bytes;
}
inline std::string byte(std::uint8_t value) { return std::string(1, static_cast<char>(value)); }

// One request of every kind of the dialect.
inline std::vector<Request> one_of_each(Dialect dialect) {
  std::vector<Request> all = {
      numbered(RequestKind::validate, {}, validate_magic),
      request(RequestKind::set, "key", "value"),
      compare("key", "value", ""),
      request(RequestKind::get, "key"),
      numbered(RequestKind::add, "number", -3),
      listing(RequestKind::check, {"key", "number"}),
      listing(RequestKind::wait, {"key"}),
      request(RequestKind::num_keys),
      request(RequestKind::delete_key, "key"),
      request(RequestKind::append, "key", std::string_view("\0\xff", 2)),
      listing(RequestKind::multi_get, {"key", "number", "absent"}),
      listing(RequestKind::multi_set, {"a", "b"}, {"1", ""}),
      request(RequestKind::cancel_wait),
      numbered(RequestKind::ping, {}, 0xfffffffe),
      request(RequestKind::queue_push, "queue", "value"),
      request(RequestKind::queue_len, "queue"),
      request(RequestKind::queue_pop, "queue"),
      request(RequestKind::list_keys),
      numbered(RequestKind::barrier, "barrier", 1),
      request(RequestKind::watch_key, "key"),
  };
  std::erase_if(all, [&](const Request& one) { return !type_byte(dialect, one.kind); });
  return all;
}

}  // namespace dlaunch::test
