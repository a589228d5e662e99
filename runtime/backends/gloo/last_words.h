// What one rank keeps of another one's coming and going.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "runtime/backends/gloo/gloo_transport.h"

namespace dlaunch {

// Gloo's texts begin with the place in its source.
inline std::string without_place(const std::string& text) {
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

// What a rank says before it goes; as it travels. The kind comes last, since it tells that all has come.
struct GlooTransport::LastWords {
  enum Kind : std::uint32_t { none = 0, left = 1, gave_up = 2 };

  char text[504] = {};
  std::int32_t blamed = -1;  // the rank because of which the sender gave up; -1: itself
  std::uint32_t kind = none;

  static LastWords leaving() {
    LastWords words;
    words.kind = left;
    return words;
  }
  static LastWords giving_up(const std::string& reason, int blamed) {
    LastWords words;
    words.kind = gave_up;
    words.blamed = blamed;
    std::memcpy(words.text, reason.data(), std::min(reason.size(), sizeof words.text));
    return words;
  }

  [[nodiscard]] std::string reason() const { return {text, strnlen(text, sizeof text)}; }

  // As a sentence about the rank that said it, which has not left in order. `gloo_says`: for the case that it
  // said nothing.
  [[nodiscard]] std::string describe(const std::string& gloo_says) const {
    if (kind == gave_up && blamed >= 0) {
      return "it gave up because of rank " + std::to_string(blamed) + ": " + reason();
    }
    if (kind == gave_up) return "it gave up: " + reason();
    return "it died, or the connection to it was lost" +
           (gloo_says.empty() ? "" : " (" + without_place(gloo_says) + ")");
  }
};

// Memory before buffers: Gloo may use it until the buffer has gone.
struct GlooTransport::Peer {
  LastWords heard;
  LastWords told;
  char alive = 0;
  char echo_out = 0;
  char echo_in = 0;
  Buffer hear;                     // receive, posted from the beginning
  Buffer tell;                     // send, posted when this rank goes
  Buffer liveness;                 // receive that nobody answers
  Buffer echo;                     // send, posted in advance
  Buffer ask_echo;                 // receive, posted when flushing
  Buffer answer;                   // send, posted in advance: the transport's entered_
  std::optional<LastWords> known;  // what was heard, once asked for; protected by peers_mutex_
  bool left = false;               // in order; protected by peers_mutex_
  bool asked = false;              // for its echo
};

}  // namespace dlaunch
