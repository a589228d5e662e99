// What a rank sends to the others before it leaves a group.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "runtime/backends/gloo/frame.h"
#include "runtime/base/errors.h"

namespace dlaunch::internal {

// The bytes of Frame::goodbye on the wire.
struct GoodbyeMessage {
  enum Kind : std::uint32_t { none = 0, left = 1, gave_up = 2 };

  char text[504] = {};
  std::int32_t blamed = -1;  // the rank that made the sender give up; -1: itself
  std::uint32_t kind = none;

  // `why`: continues "it has left the group"; may be empty.
  static GoodbyeMessage leaving(const std::string& why) {
    GoodbyeMessage words;
    words.kind = left;
    std::memcpy(words.text, why.data(), std::min(why.size(), sizeof words.text));
    return words;
  }
  static GoodbyeMessage giving_up(const std::string& reason, int blamed) {
    GoodbyeMessage words;
    words.kind = gave_up;
    words.blamed = blamed;
    std::memcpy(words.text, reason.data(), std::min(reason.size(), sizeof words.text));
    return words;
  }

  [[nodiscard]] std::string reason() const { return {text, strnlen(text, sizeof text)}; }

  // A sentence about the rank that gave up.
  [[nodiscard]] std::string describe() const {
    const std::string because = blamed >= 0 ? " because of rank " + std::to_string(blamed) : "";
    return it_gave_up + because + ": " + reason();
  }
};

static_assert(std::is_trivially_copyable_v<GoodbyeMessage> && sizeof(GoodbyeMessage) <= Frame::longest_whole);

}  // namespace dlaunch::internal
