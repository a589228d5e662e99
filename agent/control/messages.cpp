#include "agent/control/messages.h"

#include <algorithm>
#include <array>
#include <utility>

#include "agent/control/message_io.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

template <class M>
Result<Message> read_fields(FieldReader& in) {
  M m;
  in(m);
  if (!in.done())
    return Error{ErrorKind::invalid, "malformed agent message", "", "its fields do not fit its length", ""};
  return Message(std::move(m));
}

using ReadFields = Result<Message> (*)(FieldReader& in);

// How each message is read, by its place in the variant.
template <std::size_t... I>
constexpr std::array<ReadFields, sizeof...(I)> readers_of(std::index_sequence<I...>) {
  return {&read_fields<std::variant_alternative_t<I, Message>>...};
}
constexpr auto readers = readers_of(std::make_index_sequence<std::variant_size_v<Message>>());

}  // namespace

Progress bounded(Progress progress) {
  if (progress.groups.size() > Progress::max_groups) progress.groups.resize(Progress::max_groups);
  std::size_t room = Progress::max_rows;
  std::size_t call_sites = 0;
  for (GroupProgress& group : progress.groups) {
    if (group.here.size() > room) group.here.resize(room);
    room -= group.here.size();
    for (RankProgress& rank : group.here) {
      if (rank.call_site.empty()) continue;
      if (call_sites == Progress::max_call_sites)
        rank.call_site.clear();
      else
        ++call_sites;
    }
  }
  return progress;
}

std::string encode(const Message& message) {
  std::string body;
  ByteWriter(body).u8(static_cast<std::uint8_t>(message.index() + 1));
  FieldWriter out(body);
  std::visit([&](const auto& m) { out(m); }, message);
  std::string frame;
  ByteWriter(frame).u32(static_cast<std::uint32_t>(body.size()));
  return frame + body;
}

Result<Message> decode(ByteSpan body) {
  FieldReader in(body);
  const std::uint8_t number = in.kind();
  if (number < 1 || number > readers.size()) {
    return Error{ErrorKind::invalid, "malformed agent message", "", "unknown kind " + std::to_string(number),
                 ""};
  }
  return readers[number - 1U](in);
}

void FrameReader::append(ByteSpan bytes) { buffer_.append(as_text(bytes)); }

Result<std::optional<Message>> FrameReader::next() {
  if (greeting_left_) {
    const std::size_t have = std::min(buffer_.size(), greeting.size());
    if (std::string_view(buffer_).substr(0, have) != greeting.substr(0, have)) {
      const std::size_t version = greeting.size() - 1;  // its position, and the length before it
      const bool other_version =
          have == greeting.size() && buffer_.compare(0, version, greeting, 0, version) == 0;
      return Error{ErrorKind::refused, "not a dlaunch agent of this version", "",
                   other_version
                       ? "it has version " + std::to_string(static_cast<std::uint8_t>(buffer_[version])) +
                             " of the agents' protocol, this dlaunch " + std::to_string(protocol_version)
                       : "its greeting is unknown",
                   "use one dlaunch version on all nodes"};
    }
    if (have < greeting.size()) return std::optional<Message>{};
    buffer_.erase(0, greeting.size());
    greeting_left_ = false;
    is_dlaunch_ = true;
  }
  if (buffer_.size() < sizeof(std::uint32_t)) return std::optional<Message>{};
  const std::uint32_t length = ByteReader(as_byte_span(buffer_)).u32();
  if (length > limit_ && !is_dlaunch_) {
    constexpr std::size_t shown = 40;
    return Error{ErrorKind::refused, "the peer is not dlaunch", "",
                 "it begins with '" + shortened(sanitize_for_terminal(buffer_), shown) + "'", ""};
  }
  if (length > limit_) {
    return Error{ErrorKind::limit, "malformed agent message", "",
                 "a frame of " + std::to_string(length) + " bytes is too long", ""};
  }
  if (buffer_.size() < sizeof length + length) return std::optional<Message>{};
  auto message = decode(as_byte_span(buffer_).subspan(sizeof length, length));
  buffer_.erase(0, sizeof length + length);
  if (!message) return std::move(message).error();
  is_dlaunch_ = true;
  return std::optional<Message>(std::move(message).value());
}

}  // namespace dlaunch::agent
