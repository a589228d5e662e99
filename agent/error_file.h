// What a worker says of its own failure: the file that TORCHELASTIC_ERROR_FILE names and PyTorch's @record
// writes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

struct WorkerError {
  std::string message;    // one line: "RuntimeError: boom"
  std::string traceback;  // may be empty
};

// Where a worker's is.
std::string error_file_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank);

// {"message": {"message": "...", "extraInfo": {"py_callstack": "..."}}}, or {"message": "..."}. None where
// the text is something else: it comes from outside, and may be cut short.
std::optional<WorkerError> parse_error_file(std::string_view text);

// The same format, for a dlaunch that is itself somebody's worker.
std::string make_error_file(const std::string& message, int exit_code, std::int64_t unix_time);

}  // namespace dlaunch::agent
