#include "launcher/remote/relay_protocol.h"

#include <algorithm>
#include <csignal>
#include <string_view>
#include <type_traits>
#include <utility>

#include "store/base/overloaded.h"

namespace dlaunch::launcher {
namespace {

template <class Message, class... All>
constexpr std::uint8_t number_among(const std::variant<All...>* /*type*/) {
  std::uint8_t number = 0;
  (void)((std::is_same_v<Message, All> || (++number, false)) || ...);
  return number;
}
template <class Message>
constexpr std::uint8_t number_of() {
  return number_among<Message>(static_cast<const RelayMessage*>(nullptr));
}

void add_frame(std::string& out, std::uint8_t kind, ProcessNumber process, std::string_view content) {
  ByteWriter(out)
      .u32(static_cast<std::uint32_t>(sizeof kind + sizeof process + content.size()))
      .u8(kind)
      .u32(process);
  out.append(content);
}

// `prefix`: begins the content of each frame.
void add_frames(std::string& out, std::uint8_t kind, ProcessNumber process, std::string_view prefix,
                std::string_view bytes) {
  const std::size_t most = most_relayed - prefix.size();
  do {
    add_frame(out, kind, process, std::string(prefix).append(bytes.substr(0, most)));
    bytes.remove_prefix(std::min(most, bytes.size()));
  } while (!bytes.empty());
}

std::string byte(int value) { return {static_cast<char>(value)}; }

std::string with_ends(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out.append(word).push_back('\0');
  return out;
}

std::vector<std::string> words_in(std::string_view content) {
  std::vector<std::string> words;
  while (!content.empty()) {
    const std::size_t end = content.find('\0');
    if (end == std::string_view::npos) return {};
    words.emplace_back(content.substr(0, end));
    content.remove_prefix(end + 1);
  }
  return words;
}

Error malformed(const std::string& why) {
  return {ErrorKind::refused, "malformed frame of a relay", "", why, ""};
}

// A line that no other program writes; it ends in the version of this protocol.
std::string greeting_mark(const std::string& key) { return "\x1e" + key + " relay "; }
constexpr std::string_view protocol_version = "1\n";

bool is_stream(std::uint8_t value) { return value <= static_cast<std::uint8_t>(Stream::err); }

// None: the content does not fit the kind.
std::optional<RelayMessage> message_of(std::uint8_t kind, ProcessNumber process, std::string_view content) {
  ByteReader in(as_byte_span(content));
  switch (kind) {
    case number_of<KeepAlive>():
      return KeepAlive{};
    case number_of<RunProcess>(): {
      RunProcess run{process, words_in(content)};
      if (run.command.empty()) return std::nullopt;
      return run;
    }
    case number_of<ProcessInput>():
      return ProcessInput{process, std::string(content)};
    case number_of<EndInput>():
      return EndInput{process};
    case number_of<SignalProcess>(): {
      const int signo = in.u8();
      if (!in.done() || signo == 0 || signo >= NSIG) return std::nullopt;
      return SignalProcess{process, signo};
    }
    case number_of<PauseOutput>(): {
      const std::uint8_t stream = in.u8();
      const std::uint8_t paused = in.u8();
      if (!in.done() || !is_stream(stream) || paused > 1) return std::nullopt;
      return PauseOutput{process, static_cast<Stream>(stream), paused == 1};
    }
    case number_of<ProcessOutput>(): {
      const std::uint8_t stream = in.u8();
      if (!in.ok() || !is_stream(stream)) return std::nullopt;
      return ProcessOutput{process, static_cast<Stream>(stream), std::string(content.substr(1))};
    }
    case number_of<ProcessGone>(): {
      const int status = in.integer<std::int32_t>();
      if (!in.done()) return std::nullopt;
      return ProcessGone{process, status};
    }
    case number_of<ProcessNotRun>():
      return ProcessNotRun{process, std::string(content)};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string encode(const RelayMessage& message) {
  std::string out;
  const auto kind = static_cast<std::uint8_t>(message.index());
  std::visit(Overloaded{
                 [&](const KeepAlive&) { add_frame(out, kind, 0, ""); },
                 [&](const RunProcess& m) { add_frame(out, kind, m.process, with_ends(m.command)); },
                 [&](const ProcessInput& m) { add_frames(out, kind, m.process, "", m.bytes); },
                 [&](const EndInput& m) { add_frame(out, kind, m.process, ""); },
                 [&](const SignalProcess& m) { add_frame(out, kind, m.process, byte(m.signo)); },
                 [&](const PauseOutput& m) {
                   add_frame(out, kind, m.process, byte(static_cast<int>(m.stream)) + byte(m.paused ? 1 : 0));
                 },
                 [&](const ProcessOutput& m) {
                   add_frames(out, kind, m.process, byte(static_cast<int>(m.stream)), m.bytes);
                 },
                 [&](const ProcessGone& m) {
                   std::string status;
                   ByteWriter(status).integer(static_cast<std::int32_t>(m.wait_status));
                   add_frame(out, kind, m.process, status);
                 },
                 [&](const ProcessNotRun& m) { add_frame(out, kind, m.process, m.why); },
             },
             message);
  return out;
}

std::string relay_greeting(const std::string& key) { return greeting_mark(key).append(protocol_version); }

FoundGreeting find_relay_greeting(std::string_view written, const std::string& key) {
  const std::string mark = greeting_mark(key);
  const std::size_t at = written.find(mark);
  const std::size_t end = at == std::string_view::npos ? at : written.find('\n', at);
  if (end == std::string_view::npos) return {};
  const std::string_view version = written.substr(at + mark.size(), end + 1 - at - mark.size());
  return {end + 1, version != protocol_version};
}

Result<std::optional<RelayMessage>> RelayReader::next() {
  constexpr std::size_t longest = most_relayed + sizeof(std::uint8_t) + sizeof(ProcessNumber);
  ByteReader in(as_byte_span(std::string_view(buffer_).substr(taken_)));
  const std::size_t length = in.u32();
  if (in.ok() && length > longest) return malformed("its length is " + std::to_string(length) + " bytes");
  if (!in.ok() || in.left() < length) {
    buffer_.erase(0, std::exchange(taken_, 0));
    return std::optional<RelayMessage>{};
  }
  const std::uint8_t kind = in.u8();
  const ProcessNumber process = in.u32();
  const std::size_t header = in.consumed();
  if (!in.ok() || header > sizeof(std::uint32_t) + length) return malformed("it has no process");
  const std::string_view content =
      std::string_view(buffer_).substr(taken_ + header, length + sizeof(std::uint32_t) - header);
  auto message = message_of(kind, process, content);
  if (!message) return malformed("its kind is " + std::to_string(kind));
  taken_ += sizeof(std::uint32_t) + length;
  return message;
}

}  // namespace dlaunch::launcher
