// torchelastic's error file: a worker writes it to $TORCHELASTIC_ERROR_FILE when an exception ends it
// (PyTorch's @record does). Pure: text to value and back. Another program writes the text: it may be
// anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::agent {

struct ErrorFile {
  std::string message;      // its first line: "ValueError: no such file"
  std::string traceback;    // its last lines; empty if there is none
  std::int64_t unix_s = 0;  // the time of the exception in whole seconds; 0: not given

  bool operator==(const ErrorFile&) const = default;
};

// Longer files are rejected.
inline constexpr std::size_t longest_error_file = 256U * 1024;

// The name of the copy beside a worker's log files; torchrun uses the same.
inline constexpr std::string_view kept_error_file = "error.json";

// The path of a worker's error file.
std::string error_file_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank);

// Reads both forms that PyTorch has written: `message` as an object with `message` and `extraInfo`, or as a
// text beside a `timestamp`. Fields of a wrong type count as missing. An error: there is no message.
Result<ErrorFile> parse_error_file(std::string_view text);

// The same form with `errorCode`, for an agent that has started dlaunch as its worker.
std::string to_error_file(const ErrorFile& file, int exit_code);

// A worker's own file with the `errorCode` that torchrun adds; everything else stays. None: it is not such a
// file, or its message is a plain text, to which torchrun adds none either.
std::optional<std::string> with_error_code(std::string_view text, int exit_code);

// The time between the exception and the end of the process. The timestamp in the file is in whole seconds,
// so the time at which the file was written counts, unless the timestamp is earlier. In nanoseconds since
// 1970.
Duration since_exception(std::int64_t ended_ns, std::int64_t written_ns, const ErrorFile& file);

}  // namespace dlaunch::agent
