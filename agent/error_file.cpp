#include "agent/error_file.h"

#include <nlohmann/json.hpp>

namespace dlaunch::agent {
namespace {

constexpr std::size_t longest_message = 1000;

std::string text_at(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// PyTorch puts the exception's whole text here; its first line is what a report has room for.
std::string one_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \r\n\t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, std::min(text.find_first_of("\r\n", begin) - begin, longest_message));
}

}  // namespace

std::string error_file_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank) {
  return scratch_dir + "/" + std::to_string(round) + "_" + std::to_string(local_rank) + ".error.json";
}

std::optional<WorkerError> parse_error_file(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto message = json.find("message");
  if (message == json.end()) return std::nullopt;
  WorkerError error;
  if (message->is_string()) {
    error.message = one_line(message->get<std::string>());
  } else if (message->is_object()) {
    error.message = one_line(text_at(*message, "message"));
    if (const auto extra = message->find("extraInfo"); extra != message->end() && extra->is_object())
      error.traceback = text_at(*extra, "py_callstack");
  }
  if (error.message.empty()) return std::nullopt;
  return error;
}

std::string make_error_file(const std::string& message, int exit_code, std::int64_t unix_time) {
  const nlohmann::ordered_json json = {{"message",
                                        {{"message", message},
                                         {"errorCode", exit_code},
                                         {"extraInfo", {{"timestamp", std::to_string(unix_time)}}}}}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace dlaunch::agent
