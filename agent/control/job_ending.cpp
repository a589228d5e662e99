#include "agent/control/job_ending.h"

#include <charconv>
#include <utility>

#include "agent/control/messages.h"

namespace dlaunch::agent {
namespace {

// The record: the version of the protocol, the token, and the End message that the members received.
const std::string& first_word() {
  static const std::string word = "dlaunch-end/" + std::to_string(protocol_version) + " ";
  return word;
}

Error unreadable(std::string why) {
  return {ErrorKind::invalid, "cannot read how the job ended", "", std::move(why), ""};
}

}  // namespace

std::string to_text(const JobEnding& ending) {
  return first_word() + std::to_string(ending.fencing) + "\n" + encode(End{ending.outcome});
}

Result<JobEnding> parse_job_ending(std::string_view text) {
  if (!text.starts_with(first_word())) return unreadable("the record comes from another version of dlaunch");
  text.remove_prefix(first_word().size());
  JobEnding ending;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ending.fencing);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || !text.starts_with('\n')) return unreadable("the record has no fencing token");
  FrameReader reader = FrameReader::from_coordinator();
  reader.append(as_byte_span(text.substr(1)));
  auto message = reader.next();
  if (!message) return unreadable(message.error().message());
  const auto* end_message = *message ? std::get_if<End>(&**message) : nullptr;
  if (end_message == nullptr) return unreadable("the record has no outcome");
  ending.outcome = end_message->outcome;
  return ending;
}

}  // namespace dlaunch::agent
