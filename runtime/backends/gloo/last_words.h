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

  char text[508] = {};
  std::uint32_t kind = none;

  static LastWords make(Kind kind, const std::string& reason) {
    LastWords words;
    words.kind = kind;
    std::memcpy(words.text, reason.data(), std::min(reason.size(), sizeof words.text));
    return words;
  }

  // As a sentence about the rank that said it. `gloo_says`: for the case that it said nothing.
  [[nodiscard]] std::string describe(const std::string& gloo_says) const {
    if (kind == left) return "it has left the group";
    if (kind == gave_up) return "it gave up: " + std::string(text, strnlen(text, sizeof text));
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
  std::optional<LastWords> known;  // what was heard, once asked for; protected by peers_mutex_
  bool left = false;               // in order; protected by peers_mutex_
  bool asked = false;              // for its echo
};

}  // namespace dlaunch
