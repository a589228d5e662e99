#include "dlaunch/backend.h"
#include "runtime/record/recorder.h"

namespace dlaunch {
inline namespace v1 {

MessageWait::MessageWait() : record_(std::make_unique<const internal::WaitRecord>()) {}
MessageWait::~MessageWait() = default;

}  // namespace v1
}  // namespace dlaunch
