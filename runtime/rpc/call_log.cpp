#include "runtime/rpc/call_log.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/quick_clock.h"
#include "runtime/group/profiler.h"
#include "runtime/record/page_words.h"

namespace dlaunch::internal {

namespace {

// Calls that are under way keep their places: so many of them may be passed over for one that is free.
constexpr int most_tries = 8;

template <std::size_t Words>
void put_name(page::Name<Words>& into, std::string_view text) {
  const auto name = page::Name<Words>::of(text);
  for (std::size_t i = 0; i < Words; ++i) put(into.words[i], name.words[i]);
}

template <class T>
T load(T& word) {
  return std::atomic_ref<T>(word).load(std::memory_order_acquire);
}
template <std::size_t Words>
std::string load(page::Name<Words>& from) {
  page::Name<Words> name{};
  for (std::size_t i = 0; i < Words; ++i) name.words[i] = load(from.words[i]);
  return name.text();
}

struct OpenCall {
  std::int64_t began_ns;
  bool is_served;
  rpc::CallInfo info;
};

rpc::CallInfo::State state_of(std::uint8_t state) {
  switch (state) {
    case page::Call::queued:
      return rpc::CallInfo::State::queued;
    case page::Call::sent:
      return rpc::CallInfo::State::sent;
    case page::Call::waiting:
      return rpc::CallInfo::State::waiting;
    default:
      return rpc::CallInfo::State::running;
  }
}

// None: it has ended, or changes.
std::optional<OpenCall> open_call(page::Call& call, std::int64_t now_ns) {
  const std::uint64_t seqlock = load(call.seqlock);
  const std::uint8_t state = load(call.state);
  if (seqlock % 2 != 0 || !page::Call::is_open(state)) return std::nullopt;
  const std::int64_t began = load(call.began_ns);
  OpenCall open{
      began,
      load(call.is_served) == 1,
      {load(call.worker), load(call.function), state_of(state), std::chrono::nanoseconds(now_ns - began)}};
  return load(call.seqlock) == seqlock && page::Call::is_open(load(call.state)) ? std::optional(open)
                                                                                : std::nullopt;
}

// The ring's own count goes on: places are claimed by it.
void reset(page::CallCounts& counts) {
  for (std::uint64_t* const count :
       {&counts.made, &counts.succeeded, &counts.failed, &counts.latency_ns, &counts.longest_ns,
        &counts.arrived, &counts.answered, &counts.answered_with_error, &counts.bytes_sent,
        &counts.bytes_received, &counts.owned, &counts.used, &counts.pending})
    put(*count, std::uint64_t{0});
}

}  // namespace

CallLog::CallLog(const Options& options)
    : options_(options),
      own_(options.page == nullptr ? std::make_unique<Memory>() : nullptr),
      counts_(own_ ? own_->counts : options.page->header.calls),
      calls_(own_ ? own_->calls : options.page->calls),
      generation_(std::uint64_t{options.generation % 0x8000U} << 48U) {
  reset(counts_);
  put_name(counts_.worker, options.name);
  put(counts_.id, static_cast<std::int32_t>(options.rank) + 1);
}

CallTag CallLog::begin(const What& what) {
  if (what.function == reference_function) return {};
  const std::int64_t now_ns = ns_of(QuickClock::now());
  add(what.is_served ? counts_.arrived : counts_.made, 1);
  add(what.is_served ? counts_.bytes_received : counts_.bytes_sent, what.bytes);
  return {record(what, now_ns), now_ns, begin_span(what), what.is_served};
}

std::uint64_t CallLog::begin_span(const What& what) const {
  if (!profiler().is_on()) return 0;
  const std::uint64_t number = what.number | generation_;
  const auto self = static_cast<std::uint32_t>(options_.rank);
  return profiler().begin_call(
      {.function = what.function,
       .row = (what.is_served ? "calls of worker " : "calls to worker ") + std::string(what.worker),
       .worker = static_cast<int>(self),
       .job_rank = options_.job_rank,
       .number = number,
       .bytes = what.bytes,
       .arrow = {std::to_string(what.is_served ? what.peer : self) + " " +
                     std::to_string(what.is_served ? self : what.peer) + " " + std::to_string(number),
                 !what.is_served}});
}

// Returns the record's seqlock; 0: there is no place.
std::uint64_t CallLog::record(const What& what, std::int64_t now_ns) {
  for (int i = 0; i < most_tries; ++i) {
    const std::uint64_t place = add(counts_.next, 1);
    page::Call& call = calls_[place % page::max_calls];
    if (page::Call::is_open(get(call.state)) || !claim(call.seqlock, 2 * place + 1)) continue;
    put(call.number, what.number | generation_);
    put(call.began_ns, now_ns);
    put(call.ended_ns, std::int64_t{0});
    put(call.peer, static_cast<std::int32_t>(what.peer));
    put(call.is_served, std::uint8_t{what.is_served});
    put_name(call.function, what.function);
    put_name(call.worker, what.worker);
    put(call.state, std::uint8_t{what.is_served ? page::Call::waiting : page::Call::queued});
    put(call.seqlock, 2 * place + 2);
    return 2 * place + 2;
  }
  return 0;
}

void CallLog::advance(const CallTag& tag) {
  if (tag.record == 0) return;
  put(calls_[(tag.record / 2 - 1) % page::max_calls].state,
      std::uint8_t{tag.is_served ? page::Call::running : page::Call::sent});
}

CallLog::Ends::Ends(CallLog& log) : log_(log), now_ns_(ns_of(QuickClock::now())) {}

CallLog::Ends::~Ends() {
  page::CallCounts& counts = log_.counts_;
  for (const auto count :
       {&page::CallCounts::answered, &page::CallCounts::answered_with_error, &page::CallCounts::bytes_sent,
        &page::CallCounts::succeeded, &page::CallCounts::failed, &page::CallCounts::bytes_received,
        &page::CallCounts::latency_ns}) {
    if (more_.*count != 0) internal::add(counts.*count, more_.*count);
  }
  if (more_.longest_ns != 0) raise_to(counts.longest_ns, more_.longest_ns);
}

void CallLog::Ends::add(const CallTag& tag, bool success, std::size_t bytes) {
  if (tag.began_ns == 0) return;
  profiler().end(tag.span, success);
  if (tag.is_served) {
    ++more_.answered;
    if (!success) ++more_.answered_with_error;
    more_.bytes_sent += bytes;
  } else {
    const auto latency = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_ns_ - tag.began_ns));
    ++(success ? more_.succeeded : more_.failed);
    more_.bytes_received += bytes;
    if (success) {
      more_.latency_ns += latency;
      more_.longest_ns = std::max(more_.longest_ns, latency);
    }
  }
  if (tag.record == 0) return;
  page::Call& call = log_.calls_[(tag.record / 2 - 1) % page::max_calls];
  put(call.ended_ns, now_ns_);
  put(call.state, std::uint8_t{success ? page::Call::succeeded : page::Call::failed});
}

void CallLog::set_references(std::size_t owned, std::size_t used, std::size_t pending) {
  put(counts_.owned, std::uint64_t{owned});
  put(counts_.used, std::uint64_t{used});
  put(counts_.pending, std::uint64_t{pending});
}

rpc::DebugInfo CallLog::info() const {
  const std::int64_t now_ns = ns_of(QuickClock::now());
  std::vector<OpenCall> open;
  for (page::Call& call : calls_) {
    if (auto one = open_call(call, now_ns)) open.push_back(*std::move(one));
  }
  std::ranges::stable_sort(open, {}, &OpenCall::began_ns);
  rpc::DebugInfo info;
  for (OpenCall& one : open) (one.is_served ? info.served : info.made).push_back(std::move(one.info));
  info.calls = get(counts_.made);
  info.succeeded = get(counts_.succeeded);
  info.failed = get(counts_.failed);
  info.total_latency = std::chrono::nanoseconds(get(counts_.latency_ns));
  info.longest_latency = std::chrono::nanoseconds(get(counts_.longest_ns));
  info.arrived = get(counts_.arrived);
  info.answered = get(counts_.answered);
  info.answered_with_error = get(counts_.answered_with_error);
  info.bytes_sent = get(counts_.bytes_sent);
  info.bytes_received = get(counts_.bytes_received);
  info.owned_references = get(counts_.owned);
  info.used_references = get(counts_.used);
  info.pending_references = get(counts_.pending);
  return info;
}

}  // namespace dlaunch::internal
