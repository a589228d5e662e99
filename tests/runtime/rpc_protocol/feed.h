// Bytes as they arrive, for a MessageReader.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/rpc_protocol/message_reader.h"

namespace dlaunch::test {

// At most `most` bytes at a time.
inline std::optional<std::string> feed(internal::MessageReader& reader, std::span<const std::byte> bytes,
                                       std::size_t most, std::vector<internal::RpcMessage>& complete) {
  while (!bytes.empty()) {
    const internal::MessageReader::Space space = reader.space();
    EXPECT_FALSE(space.buffer.empty());
    std::size_t stored = 0;
    for (const std::span<std::byte> place : {space.direct, space.buffer}) {
      const std::size_t count = std::min({place.size(), most - stored, bytes.size()});
      if (count > 0) std::memcpy(place.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      stored += count;
    }
    if (std::optional<std::string> wrong = reader.advance(stored, complete)) return wrong;
  }
  return std::nullopt;
}

// Front and blocks, as they arrive.
inline std::string text_of(const codec::Bytes& body) {
  std::string text = body.front;
  for (const codec::Block& block : body.blocks) {
    text.resize(body.front.size() + codec::Bytes::aligned(text.size() - body.front.size()));
    text += block.view();
  }
  return text;
}

}  // namespace dlaunch::test
