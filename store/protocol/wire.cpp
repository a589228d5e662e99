#include "store/protocol/wire.h"

#include <algorithm>
#include <array>

namespace dlaunch::store {
namespace {

using Kind = RequestKind;

constexpr std::array names = {
    std::string_view("validate"),    std::string_view("set"),       std::string_view("compare_set"),
    std::string_view("get"),         std::string_view("add"),       std::string_view("check"),
    std::string_view("wait"),        std::string_view("num_keys"),  std::string_view("delete_key"),
    std::string_view("append"),      std::string_view("multi_get"), std::string_view("multi_set"),
    std::string_view("cancel_wait"), std::string_view("ping"),      std::string_view("queue_push"),
    std::string_view("queue_pop"),   std::string_view("queue_len"), std::string_view("list_keys"),
    std::string_view("barrier"),     std::string_view("watch_key")};
static_assert(names.size() == request_kinds);

// v1_13's and v2_1's types by number; v2_2's are the kinds themselves.
constexpr std::array v1_13_kinds = {Kind::set,      Kind::compare_set, Kind::get,
                                    Kind::add,      Kind::check,       Kind::wait,
                                    Kind::num_keys, Kind::watch_key,   Kind::delete_key};
constexpr std::array v2_1_kinds = {Kind::set,    Kind::compare_set, Kind::get,       Kind::add,
                                   Kind::check,  Kind::wait,        Kind::num_keys,  Kind::delete_key,
                                   Kind::append, Kind::multi_get,   Kind::multi_set, Kind::cancel_wait};
constexpr std::uint8_t delete_or_append = 8;  // ambiguous in before_2_2: 1.13 deletes, 2.1 appends
constexpr std::uint8_t first_only_v2_1 = 9;   // 1.13 has no such type

std::optional<Kind> kind_of(Dialect dialect, std::uint8_t type) {
  switch (dialect) {
    case Dialect::v1_13:
      if (type < v1_13_kinds.size()) return v1_13_kinds[type];
      return std::nullopt;
    case Dialect::before_2_2:  // only C++ programs send 1.13's WATCH_KEY, on a connection of its own
    case Dialect::v2_1:
      if (type < v2_1_kinds.size()) return v2_1_kinds[type];
      return std::nullopt;
    case Dialect::v2_2:
      if (type <= last_request_byte) return static_cast<Kind>(type);
      return std::nullopt;
  }
  return std::nullopt;
}

// Reads a request's body; after a failure it knows the minimum number of bytes.
class Body {
 public:
  Body(ByteSpan bytes, const StoreLimits& limits) : bytes_(bytes), limits_(limits), reader_(bytes) {
    reader_.u8();
  }

  template <class T>
  T integer() {
    need(sizeof(T));
    return reader_.integer<T>();
  }
  std::string_view key() { return text(limits_.key_bytes, "a key over the limit"); }
  std::string_view value() { return text(limits_.value_bytes, "a value over the limit"); }

  // `texts_each`: 1 for keys, 2 for keys with values.
  void list(std::size_t texts_each, Request& request) {
    const auto count = integer<std::uint64_t>();
    if (count > limits_.keys_per_request) why_ = "too many keys";
    for (std::uint64_t i = 0; i < count && good(); ++i) {
      request.keys.push_back(key());
      if (texts_each == 2) request.values.push_back(value());
      if (!good()) at_least_ += (count - i - 1) * texts_each * sizeof(std::uint64_t);
    }
  }

  [[nodiscard]] Decoded result() const {
    if (!why_.empty()) return {Decoded::Status::bad, 0, why_, {}};
    if (at_least_ > limits_.request_bytes) return {Decoded::Status::bad, 0, "a request over the limit", {}};
    if (!reader_.ok()) return {Decoded::Status::more, at_least_, {}, {}};
    return {Decoded::Status::whole, reader_.consumed(), {}, {}};
  }

 private:
  [[nodiscard]] bool good() const { return why_.empty() && reader_.ok(); }
  void need(std::uint64_t count) { at_least_ = reader_.ok() ? reader_.consumed() + count : at_least_; }

  std::string_view text(std::uint64_t limit, std::string_view complaint) {
    if (!good()) return {};
    // Checks the announced length before use.
    ByteReader ahead(bytes_.subspan(reader_.consumed()));
    const std::uint64_t length = ahead.u64();
    if (ahead.ok() && length > limit) {
      why_ = complaint;
      return {};
    }
    need(sizeof length + length);
    return reader_.text(limit);
  }

  ByteSpan bytes_;
  const StoreLimits& limits_;
  ByteReader reader_;
  std::uint64_t at_least_ = 1;
  std::string_view why_;
};

void decode_body(Body& body, Request& request) {
  switch (request.kind) {
    case Kind::validate:
    case Kind::ping:
      request.number = body.integer<std::uint32_t>();
      return;
    case Kind::set:
    case Kind::append:
    case Kind::queue_push:
      request.key = body.key();
      request.value = body.value();
      return;
    case Kind::compare_set:
      request.key = body.key();
      request.expected = body.value();
      request.value = body.value();
      return;
    case Kind::get:
    case Kind::delete_key:
    case Kind::watch_key:
    case Kind::queue_pop:
    case Kind::queue_len:
      request.key = body.key();
      return;
    case Kind::add:
    case Kind::barrier:
      request.key = body.key();
      request.number = body.integer<std::int64_t>();
      return;
    case Kind::check:
    case Kind::wait:
    case Kind::multi_get:
      body.list(1, request);
      return;
    case Kind::multi_set:
      body.list(2, request);
      return;
    case Kind::num_keys:
    case Kind::cancel_wait:
    case Kind::list_keys:
      return;
  }
}

Decoded decode_as(Kind kind, ByteSpan bytes, const StoreLimits& limits, Request& request) {
  request.kind = kind;
  request.key = request.value = request.expected = {};  // views of bytes that no longer exist
  request.keys.clear();
  request.values.clear();
  Body body(bytes, limits);
  decode_body(body, request);
  return body.result();
}

}  // namespace

std::string_view name_of(RequestKind kind) { return names[static_cast<std::size_t>(kind)]; }

Decoded decode(Dialect dialect, ByteSpan bytes, const StoreLimits& limits, Request& request) {
  if (bytes.empty()) return {Decoded::Status::more, 1, {}, dialect};
  const auto type = static_cast<std::uint8_t>(bytes[0]);
  const auto kind = kind_of(dialect, type);
  if (!kind) return {Decoded::Status::bad, 0, "unknown request type", dialect};

  if (dialect == Dialect::before_2_2 && type == delete_or_append) {
    const Decoded as_delete = decode_as(Kind::delete_key, bytes, limits, request);
    if (as_delete.status == Decoded::Status::whole && as_delete.size == bytes.size()) {
      return {Decoded::Status::silence_decides, as_delete.size, {}, dialect};
    }
  }
  Decoded decoded = decode_as(*kind, bytes, limits, request);
  const bool shows_v2_1 = dialect == Dialect::before_2_2 && decoded.status == Decoded::Status::whole &&
                          (type >= first_only_v2_1 || type == delete_or_append);
  decoded.dialect = shows_v2_1 ? Dialect::v2_1 : dialect;
  return decoded;
}

std::optional<std::uint8_t> type_byte(Dialect dialect, RequestKind kind) {
  const auto position = [kind](const auto& kinds) -> std::optional<std::uint8_t> {
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    if (found == kinds.end()) return std::nullopt;
    return static_cast<std::uint8_t>(found - kinds.begin());
  };
  switch (dialect) {
    case Dialect::v1_13:
      return position(v1_13_kinds);
    case Dialect::before_2_2:
    case Dialect::v2_1:
      return position(v2_1_kinds);
    case Dialect::v2_2:
      if (kind == Kind::watch_key) return std::nullopt;
      return static_cast<std::uint8_t>(kind);
  }
  return std::nullopt;
}

bool encode(Dialect dialect, const Request& request, std::string& out) {
  const auto type = type_byte(dialect, request.kind);
  if (!type) return false;
  ByteWriter writer(out);
  writer.u8(*type);
  switch (request.kind) {
    case Kind::validate:
    case Kind::ping:
      writer.u32(static_cast<std::uint32_t>(request.number));
      break;
    case Kind::set:
    case Kind::append:
    case Kind::queue_push:
      writer.text(request.key).text(request.value);
      break;
    case Kind::compare_set:
      writer.text(request.key).text(request.expected).text(request.value);
      break;
    case Kind::get:
    case Kind::delete_key:
    case Kind::watch_key:
    case Kind::queue_pop:
    case Kind::queue_len:
      writer.text(request.key);
      break;
    case Kind::add:
    case Kind::barrier:
      writer.text(request.key).i64(request.number);
      break;
    case Kind::check:
    case Kind::wait:
    case Kind::multi_get:
      writer.u64(request.keys.size());
      for (const std::string_view key : request.keys) writer.text(key);
      break;
    case Kind::multi_set:
      writer.u64(request.keys.size());
      for (std::size_t i = 0; i < request.keys.size(); ++i)
        writer.text(request.keys[i]).text(request.values[i]);
      break;
    case Kind::num_keys:
    case Kind::cancel_wait:
    case Kind::list_keys:
      break;
  }
  return true;
}

}  // namespace dlaunch::store
