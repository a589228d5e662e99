#include "runtime/rpc_protocol/call_message.h"

#include <algorithm>

#include "store/base/bytes.h"

namespace dlaunch::internal {

std::string to_bytes(const CallHead& head, std::size_t arguments) {
  std::string bytes;
  bytes.reserve(head.function.size() + 3 * sizeof(std::uint64_t) + arguments);
  ByteWriter(bytes).text(head.function).u64(head.signature).u64(head.context);
  return bytes;
}

std::optional<CallRequest> parse_request(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  CallRequest request;
  request.head.function = reader.text(longest_function_name);
  request.head.signature = reader.u64();
  request.head.context = reader.u64();
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

void append_references(std::string& bytes, std::span<const PassedReference> references) {
  ByteWriter writer(bytes);
  for (const PassedReference& one : references) {
    writer.u32(one.id.owner).u32(one.id.creator).u64(one.id.number).u64(one.token);
  }
  writer.u32(static_cast<std::uint32_t>(references.size()));
}

std::optional<WithReferences> split_references(std::string_view bytes) {
  constexpr std::size_t size = 4 + 4 + 8 + 8;
  if (bytes.size() < sizeof(std::uint32_t)) return std::nullopt;
  const std::size_t before = bytes.size() - sizeof(std::uint32_t);
  const std::size_t count = ByteReader(as_byte_span(bytes.substr(before))).u32();
  if (count > most_references || count * size > before) return std::nullopt;
  WithReferences result{bytes.substr(0, before - count * size), {}};
  ByteReader reader(as_byte_span(bytes.substr(result.rest.size())));
  for (std::size_t i = 0; i < count; ++i) {
    PassedReference& one = result.references.emplace_back();
    one.id.owner = reader.u32();
    one.id.creator = reader.u32();
    one.id.number = reader.u64();
    one.token = reader.u64();
  }
  return result;
}

std::string to_bytes(const Hello& hello) {
  std::string bytes;
  ByteWriter(bytes).u32(hello.worker).text(hello.name).text(hello.host).u32(hello.rank);
  return bytes;
}

std::optional<Hello> parse_hello(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  Hello hello;
  hello.worker = reader.u32();
  hello.name = reader.text(longest_worker_name);
  hello.host = reader.text(longest_host_name);
  hello.rank = reader.u32();
  return reader.done() ? std::optional(hello) : std::nullopt;
}

}  // namespace dlaunch::internal
