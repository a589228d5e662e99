#include "launcher/remote/remote_protocol.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>

#include "launcher/flags/value_parsers.h"
#include "store/base/number.h"

namespace dlaunch::launcher {
namespace {

constexpr char record_separator = '\x1e';
constexpr std::string_view signal_word = "signal ";

struct Word {
  AgentMessage::Kind kind;
  std::string_view text;
};
constexpr std::array words{Word{AgentMessage::Kind::ready, "ready"},
                           Word{AgentMessage::Kind::report, "report"}, Word{AgentMessage::Kind::json, "json"},
                           Word{AgentMessage::Kind::end, "end"}};

// Escapes line ends.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' ? '\n' : c == 'r' ? '\r' : c;
  }
  return out;
}

// "report what happened"; none: the message of a later version.
std::optional<AgentMessage> parse_message(std::string_view line) {
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, blank);
  const auto* known = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.text == word; });
  if (known == words.end()) return std::nullopt;
  return AgentMessage{known->kind, unescaped(line.substr(std::min(blank + 1, line.size())))};
}

}  // namespace

std::string to_line(const std::string& key, const AgentMessage& message) {
  const auto* known =
      std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.kind == message.kind; });
  return record_separator + key + " " + std::string(known->text) + " " + escaped(message.text) + "\n";
}

AgentStream::AgentStream(const std::string& key) : mark_(record_separator + key + " ") {}

std::vector<StreamPart> AgentStream::take(std::string_view lines) {
  std::vector<StreamPart> parts;
  const auto add_text = [&](std::string_view text) {
    const auto kind = ready_ ? StreamPart::Kind::output : StreamPart::Kind::noise;
    if (!text.empty()) parts.push_back({kind, text, {}});
  };
  std::size_t search = 0;
  while (true) {
    const std::size_t mark = lines.find(mark_, search);
    if (mark == std::string_view::npos) break;
    search = mark + 1;
    const bool begins_a_line = mark == 0 || lines[mark - 1] == '\n' || lines[mark - 1] == '\r';
    if (!begins_a_line) continue;
    const std::size_t begin = mark + mark_.size();
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    add_text(lines.substr(0, mark));
    if (auto message = parse_message(lines.substr(begin, end - begin))) {
      ready_ = ready_ || message->kind == AgentMessage::Kind::ready;
      parts.push_back({StreamPart::Kind::message, {}, std::move(*message)});
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
    search = 0;
  }
  add_text(lines);
  return parts;
}

std::vector<int> LifelineReader::take(std::string_view bytes) {
  std::vector<int> signals;
  for (const char c : bytes) {
    if (c != '\n') {
      if (partial_.size() < longest_line) partial_ += c;
      continue;
    }
    const std::string_view line = partial_;
    if (line.starts_with(signal_word)) {
      const int signo = parse_number<int>(line.substr(signal_word.size())).value_or(0);
      if (signo > 0 && signo < NSIG) signals.push_back(signo);
    }
    partial_.clear();
  }
  return signals;
}

std::string signal_line(int signo) { return std::string(signal_word) + std::to_string(signo) + "\n"; }

}  // namespace dlaunch::launcher
