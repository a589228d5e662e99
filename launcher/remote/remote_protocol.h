// What an agent that another dlaunch started on its host (--lifeline) and that dlaunch tell each other. Pure.
//
// To the agent, on its standard input, lines: "signal 15" is a signal; anything else ("alive") only says that
// somebody is there. The end of the input, or silence, means that nobody is.
//
// From the agent, among its workers' lines: lines that begin with a record separator and the key it was
// given. On each stream everything before "ready" comes from the way there (a login shell, ssh) and not from
// the job.
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
// A line with its end.
std::string to_line(const std::string& key, const AgentMessage& message);

// A piece of one of the agent's streams.
struct StreamPart {
  enum class Kind { noise, output, message };
  Kind kind{};
  std::string_view text;  // lines with their ends: of noise and output
  AgentMessage message;
};

// Takes one stream apart.
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

// Takes the other direction apart: signals out of bytes in pieces. Lines that are no signal are only alive.
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
