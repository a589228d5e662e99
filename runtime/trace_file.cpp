#include "runtime/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dlaunch/error.h"

namespace dlaunch {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// Bytes of the UTF-8 character that begins `text`, which is not empty; 0 where there is none.
std::size_t character_length(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  }
  // Neither longer than needed, nor half of a UTF-16 pair, nor beyond Unicode's end.
  const unsigned second = byte_at(text, 1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  return length;
}

// As a JSON string. What is no text becomes U+FFFD, as readers do with it.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const auto code = static_cast<unsigned char>(c);
    const std::size_t length = character_length(text);
    if (length == 0) {
      result += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (code < 0x20) {
      constexpr const char* digits = "0123456789abcdef";
      result += {'\\', 'u', '0', '0', digits[code >> 4], digits[code & 15]};
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result + '"';
}

// Nanoseconds as microseconds, exactly.
std::string microseconds(std::int64_t ns) {
  std::string fraction = std::to_string(ns % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return std::to_string(ns / 1000) + "." + fraction;
}

}  // namespace

TraceFile::TraceFile(const std::string& path) : file_(std::fopen(path.c_str(), "we")) {
  if (!file_) throw DistError("the trace cannot be written to " + path + ": " + std::strerror(errno));
}

TraceFile::~TraceFile() { std::fputs(empty_ ? "[]\n" : "\n]\n", file_.get()); }

void TraceFile::write(const std::string& entry) {
  std::fputs(empty_ ? "[\n" : ",\n", file_.get());
  std::fputs(entry.c_str(), file_.get());
  std::fflush(file_.get());
  empty_ = false;
}

void TraceFile::add(const ProfilingEvent& event, std::int64_t began_ns) {
  const auto [row, is_new] = rows_.try_emplace(std::string(event.group), static_cast<int>(rows_.size()));
  const std::string place =
      "\"pid\": " + std::to_string(event.rank) + ", \"tid\": " + std::to_string(row->second);
  if (is_new) {
    write("{\"ph\": \"M\", \"name\": \"thread_name\", " + place +
          ", \"args\": {\"name\": " + quoted("group " + std::string(event.group)) + "}}");
  }
  write("{\"ph\": \"X\", \"name\": " + quoted(event.name) + ", \"cat\": \"dlaunch\", " + place +
        ", \"ts\": " + microseconds(began_ns) + ", \"dur\": " + microseconds(event.time_ns - began_ns) +
        ", \"args\": {\"sequence\": " + std::to_string(event.sequence) + ", \"bytes\": " +
        std::to_string(event.bytes) + ", \"success\": " + (event.success ? "true" : "false") + "}}");
}

}  // namespace dlaunch
