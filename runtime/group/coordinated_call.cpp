#include "runtime/group/coordinated_call.h"

#include <algorithm>
#include <utility>

namespace dlaunch::internal {

namespace {

// The name of a call, for the recorder.
page::Operation recorded_as(const std::string& call) {
  const auto found = std::ranges::find(page::operation_names, call);
  return found == page::operation_names.end()
             ? page::Operation::new_group
             : static_cast<page::Operation>(found - page::operation_names.begin());
}

}  // namespace

CoordinatedCall::CoordinatedCall(std::shared_ptr<GroupImpl> all, std::string operation,
                                 std::uint64_t sequence, std::string group_name)
    : all_(std::move(all)),
      context_{.rank = all_->description().rank,
               .operation = std::move(operation),
               .sequence = sequence,
               .group = std::move(group_name)} {}

void CoordinatedCall::reject(Store& keys, const DistError& error) const {
  try {
    reject_rendezvous(keys, self(), error.reason());
  } catch (const StoreError& lost) {
    all_->explain(lost, context_);
  }
}

void compare_with_all(GroupImpl& all, const std::string& operation, std::uint64_t sequence,
                      std::optional<std::chrono::milliseconds> timeout) {
  const bool is_right = timeout && is_timeout(*timeout);  // a wrong one is rejected later, on all ranks
  all.compare_call(operation + "()", deadline_after(is_right ? *timeout : all.timeout()),
                   {.rank = all.description().rank,
                    .operation = operation,
                    .sequence = sequence,
                    .group = all.description().name});
}

CallRecord::CallRecord(const CoordinatedCall& call, std::size_t ranks, std::uint64_t sequence,
                       const Timeout& limit)
    : recorder_(call.all().recorder()),
      recording_(recorder_, {.operation = recorded_as(call.context().operation), .input = ranks}, sequence,
                 -1, limit) {}

}  // namespace dlaunch::internal
