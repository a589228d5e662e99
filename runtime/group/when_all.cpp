#include "runtime/group/when_all.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

namespace dlaunch::internal {

namespace {

WorkSource source_after(const std::vector<Work>& works) {
  const auto order = [works] {
    bool is_ordered = true;
    for (const Work& work : works) is_ordered &= work.order_stream();
    return is_ordered;
  };
  return std::ranges::any_of(works, &Work::is_captured) ? WorkSource::of_captured(order) : WorkSource(order);
}

}  // namespace

Work when_all(std::span<const Work> works) {
  if (works.empty()) return {};
  struct State {
    explicit State(std::span<const Work> all)
        : works(all.begin(), all.end()), left(works.size()), source(source_after(works)) {}
    std::vector<Work> works;
    std::atomic<std::size_t> left;
    WorkSource source;
  };
  const auto state = std::make_shared<State>(works);
  for (const Work& work : works) {
    work.then([state](const Work&) {
      if (state->left.fetch_sub(1) > 1) return;
      std::exception_ptr first;
      for (const Work& ended : state->works) {
        const std::exception_ptr error = ended.exception();  // of each one, so that none is logged as unseen
        if (!first) first = error;
      }
      if (first) return state->source.fail(first);
      state->source.succeed();
    });
  }
  return state->source.work();
}

void wait_all_noexcept(std::span<const Work> works) noexcept {
  for (const Work& work : works) {
    try {
      work.wait();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the caller has an error already
    }
  }
}

}  // namespace dlaunch::internal
