// The protocol between a dlaunch and the agents that it started on other hosts (--lifeline). Pure.
//
// To the agent, on its standard input, lines: "signal 15" is a signal; any other line ("alive") is a
// heartbeat. The end of the input, or silence, means that the connection is lost.
//
// From the agent, among its workers' lines: lines that begin with a record separator and the agent's key. On
// each stream, everything before "ready" comes from ssh or a login shell and not from the job.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

inline constexpr Duration heartbeat_interval = std::chrono::seconds(10);
inline constexpr Duration silence_limit = std::chrono::seconds(60);

struct AgentMessage {
  enum class Kind {
    ready,   // it is up; on both streams
    report,  // how the job ended, for people: one paragraph
    json,    // the same for --report
    end,     // text: its exit code
  };
  Kind kind{};
  std::string text;

  bool operator==(const AgentMessage&) const = default;
};
// One line, including its end.
std::string to_line(const std::string& key, const AgentMessage& message);

// A piece of one of the agent's streams.
struct StreamPart {
  enum class Kind { noise, output, message };
  Kind kind{};
  std::string_view text;  // lines with their ends: of noise and output
  AgentMessage message;
};

// Parses one stream of the agent.
class AgentStream {
 public:
  explicit AgentStream(const std::string& key);

  // `lines`: whole ones. The parts point into them.
  std::vector<StreamPart> take(std::string_view lines);
  [[nodiscard]] bool ready() const { return ready_; }

 private:
  std::string mark_;
  bool ready_ = false;
};

// Parses the other direction: finds signals in a stream of bytes. Other lines are heartbeats.
class LifelineReader {
 public:
  std::vector<int> take(std::string_view bytes);

 private:
  static constexpr std::size_t longest_line = 64;
  std::string partial_;
};
std::string signal_line(int signo);
inline constexpr std::string_view alive_line = "alive\n";

}  // namespace dlaunch::launcher
