// torchelastic's error file: what a worker writes to $TORCHELASTIC_ERROR_FILE when an exception ends it
// (PyTorch's @record does). Pure: text to value and back. The text is another program's and may be anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::agent {

struct ErrorFile {
  std::string message;      // "ValueError: no such file"; its first line
  std::string traceback;    // its last lines; empty where there is none
  std::int64_t unix_s = 0;  // when the exception came, in whole seconds; 0: not said

  bool operator==(const ErrorFile&) const = default;
};

// Longer files are no error reports.
inline constexpr std::size_t longest_error_file = 256U * 1024;

// What it is called where it is kept beside a worker's log files, as torchrun calls it.
inline constexpr std::string_view kept_error_file = "error.json";

// Where a worker's is.
std::string error_file_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank);

// Understands both forms that PyTorch has written: `message` an object with `message` and `extraInfo`, or a
// text beside a `timestamp`. Fields of a wrong type count as missing; an error where there is no message.
Result<ErrorFile> parse_error_file(std::string_view text);

// The same form with `errorCode`, for who has started dlaunch as its worker.
std::string to_error_file(const ErrorFile& file, int exit_code);

// A worker's own file with the `errorCode` that torchrun adds; everything else in it stays. None: it is no
// such file, or its message is a plain text, where torchrun adds none either.
std::optional<std::string> with_error_code(std::string_view text, int exit_code);

// How long before its end a process wrote what the file says. The file's own second is coarse: when the file
// was written counts, unless its second says that the exception came earlier. All in nanoseconds since 1970.
Duration since_exception(std::int64_t ended_ns, std::int64_t written_ns, const ErrorFile& file);

}  // namespace dlaunch::agent
