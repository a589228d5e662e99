#include "runtime/trace_file.h"

#include <cerrno>
#include <cstring>

#include "dlaunch/error.h"

namespace dlaunch {

namespace {

// As a JSON string.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (code < 0x20) {
      constexpr const char* digits = "0123456789abcdef";
      result += {'\\', 'u', '0', '0', digits[code >> 4], digits[code & 15]};
    } else {
      result += c;
    }
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
