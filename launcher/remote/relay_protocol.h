// The protocol between a dlaunch and its relays: a relay is a dlaunch on a host that runs processes there for
// the dlaunch that the user called, so that this one need not connect to every host itself. Pure.
//
// A relay first writes a greeting, a line, on its stdout. Then each direction is a sequence
// of frames: a length (u32, of what follows it), the message's kind (u8), the process (u32), and the content.
// The caller chooses the numbers of processes. A relay behind a relay is a process like any other: its frames
// are the content of frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/base/bytes.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

enum class Stream : std::uint8_t { out, err };

using ProcessNumber = std::uint32_t;

// --- to the relay ---

struct RunProcess {
  ProcessNumber process = 0;
  std::vector<std::string> command;  // at least one word; no word contains NUL
  bool operator==(const RunProcess&) const = default;
};
struct ProcessInput {
  ProcessNumber process = 0;
  std::string bytes;
  bool operator==(const ProcessInput&) const = default;
};
struct EndInput {
  ProcessNumber process = 0;
  bool operator==(const EndInput&) const = default;
};
struct SignalProcess {
  ProcessNumber process = 0;
  int signo = 0;
  bool operator==(const SignalProcess&) const = default;
};
// The reader of this stream is slow, or no longer.
struct PauseOutput {
  ProcessNumber process = 0;
  Stream stream = Stream::out;
  bool paused = false;
  bool operator==(const PauseOutput&) const = default;
};
// A relay that reads nothing for silence_limit ends.
struct KeepAlive {
  bool operator==(const KeepAlive&) const = default;
};

// --- from the relay ---

struct ProcessOutput {
  ProcessNumber process = 0;
  Stream stream = Stream::out;
  std::string bytes;
  bool operator==(const ProcessOutput&) const = default;
};
// The last message about a process.
struct ProcessGone {
  ProcessNumber process = 0;
  int wait_status = 0;  // as of wait(2)
  bool operator==(const ProcessGone&) const = default;
};
// The same for one that could not be started.
struct ProcessNotRun {
  ProcessNumber process = 0;
  std::string why;
  bool operator==(const ProcessNotRun&) const = default;
};

// A message's number on the wire is its place here: a new one goes to the end.
using RelayMessage = std::variant<KeepAlive, RunProcess, ProcessInput, EndInput, SignalProcess, PauseOutput,
                                  ProcessOutput, ProcessGone, ProcessNotRun>;

// Bytes in one frame; longer input and output are cut into several.
inline constexpr std::size_t most_relayed = 256U * 1024;

// One frame, or several.
std::string encode(const RelayMessage& message);

// What a relay writes first, for its caller's key.
std::string relay_greeting(const std::string& key);

// Where the greeting ends in what a relay has written, noise of a login shell before it.
struct FoundGreeting {
  std::size_t end = 0;  // 0: none has come yet
  bool is_of_another_version = false;
};
FoundGreeting find_relay_greeting(std::string_view written, const std::string& key);

// Cuts a stream of bytes into messages. After an error it cannot be used any more.
class RelayReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  // None: more bytes are needed.
  Result<std::optional<RelayMessage>> next();

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
};

}  // namespace dlaunch::launcher
