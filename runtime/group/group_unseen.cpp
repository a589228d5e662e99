// Operations that go on after their call has returned, and that the program has no Work of: their end is
// recorded, and an error breaks the group.

#include <bit>
#include <cstdint>
#include <exception>

#include "dlaunch/error.h"
#include "runtime/group/group_impl.h"

namespace dlaunch::internal {

struct GroupImpl::UnseenNotes {
  OperationTrace trace;
  const char* call;  // a literal
  std::uint64_t sequence;

  static UnseenNotes of(const UnseenOperation& operation) {
    return std::bit_cast<UnseenNotes>(operation.notes);
  }
};

void GroupImpl::on_start(UnseenOperation& operation, bool reports_begin) noexcept {
  const auto& begun = static_cast<const UnseenCall&>(operation);
  operation.notes = std::bit_cast<decltype(operation.notes)>(
      UnseenNotes{{begun.span, begun.mark}, begun.call, begun.sequence});
  operation.is_taken = true;
  if (reports_begin) recorder_.put_on_device(begun.mark, page::Record::queued);
}

void GroupImpl::on_begin(const UnseenOperation& operation) noexcept {
  recorder_.put_on_device(UnseenNotes::of(operation).trace.mark, page::Record::begun);
}

void GroupImpl::on_end(const UnseenOperation& operation, const std::exception_ptr& error) noexcept {
  const UnseenNotes notes = UnseenNotes::of(operation);
  report_end(notes.trace, !error);
  if (error) fail_unseen(error, {description_.rank, notes.call, notes.sequence, description_.name, -1, {}});
}

// Of a backend that gives a Work.
void GroupImpl::finish_unseen(const Work& inner, const ErrorContext& context, const OperationTrace& trace) {
  WorkSource::when_ended(inner, [this, context, trace](const Work& work) {
    report_end(trace, work.is_success());
    if (const std::exception_ptr raw = work.exception()) fail_unseen(raw, context);
  });
}

void GroupImpl::fail_unseen(const std::exception_ptr& raw, const ErrorContext& context) {
  const std::exception_ptr error = located(raw, context);
  const WorkSource nobodys;  // logs it
  fail(error) ? nobodys.fail(error) : nobodys.fail_silently(error);
}

}  // namespace dlaunch::internal
