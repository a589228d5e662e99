#include "runtime/rpc_protocol/call_message.h"

#include <algorithm>

#include "store/base/bytes.h"

namespace dlaunch::internal {

std::string to_bytes(const CallHead& head) {
  std::string bytes;
  ByteWriter(bytes).text(head.function).u64(head.signature);
  return bytes;
}

std::optional<CallRequest> parse_request(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  CallRequest request;
  request.head.function = reader.text(longest_function_name);
  request.head.signature = reader.u64();
  if (!reader.ok()) return std::nullopt;
  request.arguments = bytes.substr(reader.consumed());
  return request;
}

std::string to_bytes(const CallFailure& failure) {
  const auto cut = [](std::string_view text) {
    return text.substr(0, std::min(text.size(), longest_failure_text));
  };
  std::string bytes;
  ByteWriter(bytes)
      .u8(static_cast<std::uint8_t>(failure.kind))
      .text(cut(failure.type))
      .text(cut(failure.text));
  return bytes;
}

std::optional<CallFailure> parse_failure(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  const std::uint8_t kind = reader.u8();
  CallFailure failure;
  failure.type = reader.text(longest_failure_text);
  failure.text = reader.text(longest_failure_text);
  const bool is_known = kind >= static_cast<std::uint8_t>(CallFailure::Kind::exception) &&
                        kind <= static_cast<std::uint8_t>(CallFailure::Kind::ending);
  if (!reader.done() || !is_known) return std::nullopt;
  failure.kind = static_cast<CallFailure::Kind>(kind);
  return failure;
}

std::string hello_bytes(std::uint32_t worker) {
  std::string bytes;
  ByteWriter(bytes).u32(worker);
  return bytes;
}

std::optional<std::uint32_t> parse_hello(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  const std::uint32_t worker = reader.u32();
  return reader.done() ? std::optional(worker) : std::nullopt;
}

}  // namespace dlaunch::internal
