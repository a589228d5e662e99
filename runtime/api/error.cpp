#include "dlaunch/error.h"

#include <utility>

namespace dlaunch {
inline namespace v1 {

namespace {

// "rank 1, all_reduce #4 of group default, peer 3: reason"
std::string sentence(const std::string& reason, const ErrorContext& context) {
  std::string place;
  const auto add = [&place](const std::string& part) { place += (place.empty() ? "" : ", ") + part; };
  if (context.rank >= 0) add("rank " + std::to_string(context.rank));
  if (!context.operation.empty()) {
    add(context.operation + (context.sequence > 0 ? " #" + std::to_string(context.sequence) : ""));
    if (!context.group.empty()) place += " of group " + context.group;
  } else if (!context.group.empty()) {
    add("group " + context.group);
  }
  if (context.peer >= 0) {
    add("peer " + std::to_string(context.peer) + (context.host.empty() ? "" : " on " + context.host));
  }
  return place.empty() ? reason : place + ": " + reason;
}

}  // namespace

DistError::DistError(const std::string& reason, ErrorContext context)
    : std::runtime_error(sentence(reason, context)), reason_(reason), context_(std::move(context)) {}

// Defined here so that the types and their run-time information exist once, in libdlaunch.so: an exception
// that a module throws must be caught by a program that was linked before the module was built.
DistError::~DistError() = default;
DistBackendError::~DistBackendError() = default;
DistNetworkError::~DistNetworkError() = default;
DistStoreError::~DistStoreError() = default;

}  // namespace v1
}  // namespace dlaunch
