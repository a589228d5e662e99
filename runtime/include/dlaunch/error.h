// The exceptions of the library.
//
// Every exception of libdlaunch derives from DistError. The message is one line with the place of the error
// (rank, operation, its number, group, peer, as far as known) and the reason; context() has the parts.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// The place an error belongs to. Unknown parts stay at their defaults and are left out of the message.
struct ErrorContext {
  int rank = -1;               // of this process in the group
  std::string operation = {};  // "all_reduce"
  std::uint64_t sequence = 0;  // the number of the operation in its group, from 1
  std::string group = {};      // the group's name
  int peer = -1;               // the rank on the other side
  std::string host = {};       // the peer's
};

// Thrown itself for wrong arguments, a missing environment variable, and a group that is not initialised.
// A wrong argument leaves the group as it was; see process_group.h for the other errors.
class DLAUNCH_EXPORT DistError : public std::runtime_error {
 public:
  explicit DistError(const std::string& reason, ErrorContext context = {});
  DistError(const DistError&) = default;
  DistError& operator=(const DistError&) = default;
  ~DistError() override;

  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }  // without the place
  [[nodiscard]] const ErrorContext& context() const noexcept { return context_; }

 private:
  std::string reason_;
  ErrorContext context_;
};

// The backend is unknown, cannot be used in this process, or does not offer the operation.
class DLAUNCH_EXPORT DistBackendError : public DistError {
 public:
  using DistError::DistError;
  ~DistBackendError() override;
};

// Another rank died, cannot be reached, left the group, makes another call
// than this rank, or did not answer before the deadline.
class DLAUNCH_EXPORT DistNetworkError : public DistError {
 public:
  using DistError::DistError;
  ~DistNetworkError() override;
};

// The store failed, through which the ranks find each other.
class DLAUNCH_EXPORT DistStoreError : public DistError {
 public:
  using DistError::DistError;
  ~DistStoreError() override;
};

}  // namespace v1
}  // namespace dlaunch
