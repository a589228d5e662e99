#include "agent/model/error_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "store/base/lines.h"
#include "store/base/number.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_message = 1000;
constexpr std::size_t quoted_characters = 60;
constexpr int deepest = 8;
constexpr std::int64_t ns_per_s = 1'000'000'000;
constexpr std::int64_t latest_s = 1LL << 33;  // the year 2242; later times are ignored
constexpr std::int64_t most_coarse_s = 60;

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// PyTorch writes the seconds as a string.
std::int64_t seconds_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  std::int64_t value = 0;
  if (found->is_number_integer()) {
    value = found->get<std::int64_t>();
  } else if (found->is_string()) {
    value = parse_number<std::int64_t>(found->get<std::string>()).value_or(0);
  }
  return value > 0 && value < latest_s ? value : 0;
}

// PyTorch puts the exception's whole text here; a report has room for its first line.
std::string first_line(const std::string& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \r\n\t"), text.size());
  const std::size_t end = text.find_first_of("\r\n", begin);
  std::string line = sanitize_for_terminal(std::string_view(text).substr(begin, end - begin));
  line.erase(0, line.find_first_not_of(" \t"));  // unprintable characters have become blanks
  return shortened(std::move(line), longest_message);
}

std::string last_lines(const std::string& text) {
  Tail tail;
  tail.add(text);
  return sanitize_for_terminal(tail.text(), true);
}

// Deeper values are dropped while the text is parsed, so that they need no memory.
Json parsed(std::string_view text) {
  return Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth <= deepest; }, false);
}

}  // namespace

std::string error_file_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank) {
  return scratch_dir + "/" + std::to_string(round) + "_" + std::to_string(local_rank) + ".error.json";
}

Result<ErrorFile> parse_error_file(std::string_view text) {
  const auto bad = [&](const std::string& why) {
    return Error{
        ErrorKind::invalid, "cannot read its error file", "", why,
        "it begins with '" +
            shortened(sanitize_for_terminal(text.substr(0, 4 * quoted_characters)), quoted_characters) + "'"};
  };
  if (text.size() > longest_error_file) return bad("it is too long");
  const Json json = parsed(text);
  if (!json.is_object()) return bad("it is not a JSON object");
  const auto message = json.find("message");
  if (message == json.end()) return bad("it has no 'message'");

  ErrorFile file;
  if (message->is_string()) {
    file.message = message->get<std::string>();
    file.unix_s = seconds_at(json, "timestamp");
  } else if (message->is_object()) {
    file.message = text_at(*message, "message");
    if (const auto extra = message->find("extraInfo"); extra != message->end() && extra->is_object()) {
      file.traceback = last_lines(text_at(*extra, "py_callstack"));
      file.unix_s = seconds_at(*extra, "timestamp");
    }
  }
  file.message = first_line(file.message);
  if (file.message.empty()) return bad("its 'message' holds no text");
  return file;
}

std::string to_error_file(const ErrorFile& file, int exit_code) {
  const Json json = {
      {"message",
       {{"message", file.message},
        {"extraInfo", {{"py_callstack", file.traceback}, {"timestamp", std::to_string(file.unix_s)}}},
        {"errorCode", exit_code}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> with_error_code(std::string_view text, int exit_code) {
  if (text.size() > longest_error_file) return std::nullopt;
  Json json = parsed(text);
  const auto message = json.is_object() ? json.find("message") : json.end();
  if (message == json.end() || !message->is_object()) return std::nullopt;
  (*message)["errorCode"] = exit_code;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Duration since_exception(std::int64_t ended_ns, std::int64_t written_ns, const ErrorFile& file) {
  std::int64_t at_ns = written_ns;
  const std::int64_t latest_said_ns = (file.unix_s + 1) * ns_per_s;
  const bool said_earlier = file.unix_s > 0 && latest_said_ns < written_ns &&
                            written_ns - latest_said_ns < most_coarse_s * ns_per_s;
  if (said_earlier) at_ns = latest_said_ns;
  return Duration(std::max<std::int64_t>(ended_ns - at_ns, 0));
}

}  // namespace dlaunch::agent
