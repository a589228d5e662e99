#include "runtime/record/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/host_name.h"
#include "runtime/base/process_environment.h"
#include "runtime/record/unix_clock.h"
#include "store/base/hex.h"
#include "store/base/number.h"
#include "store/contract/worker_env.h"

namespace dlaunch::internal {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// Bytes of the UTF-8 character at the beginning of `text`, which is not empty; 0: it is not UTF-8.
std::size_t character_length(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  }
  // Not overlong, not half of a UTF-16 pair, not beyond Unicode's end.
  const unsigned second = byte_at(text, 1);
  if (first == 0xe0 && second < 0xa0) return 0;
  if (first == 0xed && second > 0x9f) return 0;
  if (first == 0xf0 && second < 0x90) return 0;
  if (first == 0xf4 && second > 0x8f) return 0;
  return length;
}

// As a JSON string. Invalid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text) {
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
      result += "\\u00" + to_hex({&c, 1});
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

std::string arguments(const ProfilingEvent& event, const std::string& last) {
  return "\"args\": {\"sequence\": " + std::to_string(event.sequence) +
         ", \"bytes\": " + std::to_string(event.bytes) + ", " + last + "}";
}

std::string naming(const char* what, const std::string& place, const std::string& name) {
  return std::string("{\"ph\": \"M\", \"name\": \"") + what + "\", " + place +
         ", \"args\": {\"name\": " + json_string(name) + "}}";
}

}  // namespace

TraceFile::TraceFile(const std::string& path)
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)),
      clock_(clock_base(process_environment(store::env::clock))) {
  if (fd_ < 0) throw DistError("the trace cannot be written to " + path + ": " + std::strerror(errno));
  write();
}

TraceFile::ClockBase TraceFile::clock_base(const std::optional<std::string>& variable) {
  const std::string_view text = variable ? std::string_view(*variable) : std::string_view();
  const std::size_t comma = std::min(text.find(','), text.size());
  const auto base = store::parse_number<std::int64_t>(text.substr(0, comma));
  const auto error = store::parse_number<std::int64_t>(text.substr(std::min(comma + 1, text.size())));
  // Far from the ends: a steady time is added to it.
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  if (!base || !error || *base < 0 || *base > most || *error < 0) return {unix_ns() - steady_ns(), ""};
  return {*base, "the job's clock, within " + std::to_string(*error / 1000 + 1) + " us"};
}

TraceFile::~TraceFile() { close(fd_); }

void TraceFile::begin(const ProfilingEvent& event, int job_rank, const TraceArrow* arrow) {
  open_[event.id] = "{\"ph\": \"B\", \"name\": " + json_string(event.name) + ", \"cat\": \"dlaunch\", " +
                    place_of(event, job_rank, arrow != nullptr) + ", \"ts\": " + when(event.time_ns) + ", " +
                    arguments(event, "\"finished\": false") + "}";
  write();
}

void TraceFile::end(const ProfilingEvent& event, int job_rank, std::int64_t began_ns,
                    const TraceArrow* arrow) {
  open_.erase(event.id);
  const std::string place = place_of(event, job_rank, arrow != nullptr);
  add("{\"ph\": \"X\", \"name\": " + json_string(event.name) + ", \"cat\": \"dlaunch\", " + place +
      ", \"ts\": " + when(began_ns) + ", \"dur\": " + microseconds(event.time_ns - began_ns) + ", " +
      arguments(event, std::string("\"success\": ") + (event.success ? "true" : "false")) + "}");
  if (arrow != nullptr) {
    add(std::string("{\"ph\": ") + (arrow->starts ? "\"s\"" : R"("f", "bp": "e")") +
        R"(, "name": "remote call", "cat": "dlaunch", "id": )" + json_string(arrow->id) + ", " + place +
        ", \"ts\": " + when(began_ns) + "}");
  }
  write();
}

std::string TraceFile::place_of(const ProfilingEvent& event, int job_rank, bool is_call) {
  const auto [row, is_new] =
      rows_.try_emplace({job_rank, std::string(event.group)}, static_cast<int>(rows_.size()));
  const std::string process = "\"pid\": " + std::to_string(job_rank);
  std::string place = process + ", \"tid\": " + std::to_string(row->second);
  if (named_.insert(job_rank).second) {
    add(naming("process_name", process, "rank " + std::to_string(job_rank) + " on " + host_name()));
    add("{\"ph\": \"M\", \"name\": \"process_sort_index\", " + process +
        ", \"args\": {\"sort_index\": " + std::to_string(job_rank) + "}}");
    if (!clock_.about.empty())
      add("{\"ph\": \"M\", \"name\": \"process_labels\", " + process +
          ", \"args\": {\"labels\": " + json_string(clock_.about) + "}}");
  }
  if (is_new) add(naming("thread_name", place, (is_call ? "" : "group ") + std::string(event.group)));
  return place;
}

void TraceFile::add(const std::string& entry) {
  entries_ += (empty_ ? "[\n" : ",\n") + entry;
  empty_ = false;
}

// In one call, so that no signal interrupts it. The end shows at most 64 running operations, since a program
// may start thousands of them; their events are kept.
void TraceFile::write() {
  constexpr std::size_t most_open = 64;
  constexpr std::size_t most_kept = std::size_t{64} << 10;  // while the disk is full
  std::string text = entries_;
  bool nothing = empty_;
  std::size_t shown = 0;
  for (auto one = open_.begin(); one != open_.end() && shown < most_open; ++one, ++shown) {
    text += (nothing ? "[\n" : ",\n") + one->second;
    nothing = false;
  }
  text += nothing ? "[]\n" : "\n]\n";
  const auto end = written_ + static_cast<std::int64_t>(text.size());
  if (pwrite(fd_, text.data(), text.size(), written_) != static_cast<ssize_t>(text.size())) {
    if (entries_.size() < most_kept) return;
    entries_.clear();
    empty_ = written_ == 0;
    return;
  }
  if (end < length_ && ftruncate(fd_, end) != 0) return;
  length_ = end;
  written_ += static_cast<std::int64_t>(entries_.size());
  entries_.clear();
}

std::string TraceFile::when(std::int64_t steady) const {
  return microseconds(steady + clock_.unix_minus_steady_ns);
}

}  // namespace dlaunch::internal
