// libFuzzer: what another worker may send: parts of messages in pieces, and the bytes of calls and failures.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "dlaunch/codec.h"
#include "runtime/rpc_protocol/call_message.h"
#include "runtime/rpc_protocol/message_reader.h"
#include "runtime/rpc_protocol/reference_table.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::internal;

void parse(std::string_view body) {
  if (const auto request = parse_request(body)) {
    require(request->head.function.size() <= longest_function_name);
    require(to_bytes(request->head) + std::string(request->arguments) == body);
  }
  if (const auto failure = parse_failure(body)) require(parse_failure(to_bytes(*failure)) == failure);
  if (const auto split = split_references(body)) {
    std::string again(split->rest);
    append_references(again, split->references);
    require(again == body);
  }
  if (const auto message = parse_reference_message(body)) require(to_bytes(*message) == body);
  if (const auto hello = parse_hello(body)) require(to_bytes(*hello) == body);
}

// Objects whose long parts are in blocks.
void read_object(const codec::Bytes& body) {
  try {
    codec::Reader reader(body.front, body.blocks);
    codec::Read read(reader);
    std::tuple<std::string, std::vector<double>, std::vector<std::string>> object;
    read(object);
  } catch (const dlaunch::DistError&) {
  }
}

void fuzz(FuzzInput input) {
  const std::size_t at_once = input.choice() + 1U;
  std::span<const std::byte> bytes = input.bytes();
  parse(input.text());
  MessageReader reader;
  std::vector<RpcMessage> messages;
  while (!bytes.empty()) {
    const MessageReader::Space space = reader.space();
    require(!space.buffer.empty());
    std::size_t stored = 0;
    for (const std::span<std::byte> place : {space.direct, space.buffer}) {
      const std::size_t count = std::min({place.size(), at_once - stored, bytes.size()});
      if (count > 0) std::memcpy(place.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      stored += count;
    }
    if (reader.advance(stored, messages)) break;
  }
  for (const RpcMessage& message : messages) {
    parse(message.body.front);
    read_object(message.body);
    for (const auto& block : message.body.blocks) parse(block.view());
  }
}

}  // namespace
