#include "agent/model/remote_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "agent/model/page_reading.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

// State and end are written after the seqlock, so they are read apart.
bool is_whole(page::Call first, const page::Call& second) {
  first.ended_ns = second.ended_ns;
  first.state = second.state;
  return first.seqlock % 2 == 0 && first.seqlock != 0 && std::memcmp(&first, &second, sizeof first) == 0;
}

std::optional<RemoteCall> call_of(const page::Call& raw, std::size_t place) {
  const bool is_known = raw.state > page::Call::none && raw.state <= page::Call::failed &&
                        (raw.seqlock / 2 - 1) % page::max_calls == place && raw.peer >= 0;
  if (!is_known) return std::nullopt;
  RemoteCall call;
  call.number = raw.number & INT64_MAX;  // as programs read it from JSON
  call.began_ns = std::max<std::int64_t>(0, raw.began_ns);
  call.state = static_cast<page::Call::State>(raw.state);
  call.ended_ns = call.is_open() ? 0 : std::max(call.began_ns, raw.ended_ns);
  call.peer = raw.peer;
  call.is_served = raw.is_served == 1;
  call.function = sanitize_for_terminal(raw.function.text());
  call.worker = sanitize_for_terminal(raw.worker.text());
  return call;
}

}  // namespace

const RemoteCall* RemoteCalls::oldest_open(bool is_served) const {
  const auto found = std::ranges::find_if(
      calls, [&](const RemoteCall& call) { return call.is_open() && call.is_served == is_served; });
  return found == calls.end() ? nullptr : &*found;
}

const RemoteCall* RemoteCalls::awaited() const { return counts.waiting > 0 ? oldest_open(false) : nullptr; }

RemoteCalls parse_remote_calls(ByteSpan first, ByteSpan second) {
  RemoteCalls calls;
  calls.counts =
      read_at<page::CallCounts>(second, offsetof(page::Page, header) + offsetof(page::Header, calls));
  if (calls.counts.id <= 0) return calls;
  calls.id = calls.counts.id - 1;
  calls.worker = sanitize_for_terminal(calls.counts.worker.text());
  for (std::size_t i = 0; i < page::max_calls; ++i) {
    const std::size_t at = offsetof(page::Page, calls) + i * sizeof(page::Call);
    const auto raw = read_at<page::Call>(second, at);
    if (!is_whole(read_at<page::Call>(first, at), raw)) continue;
    if (auto call = call_of(raw, i)) calls.calls.push_back(*std::move(call));
  }
  std::ranges::stable_sort(calls.calls, {}, &RemoteCall::began_ns);
  return calls;
}

std::string_view describe(page::Call::State state) {
  constexpr std::array<std::string_view, page::Call::failed + 1> words{
      "", "queued", "sent", "waiting", "running", "succeeded", "failed"};
  return words.at(state);
}

std::string describe_state(const RemoteCalls& calls) {
  if (const RemoteCall* const call = calls.awaited())
    return "waits for the answer of worker " + call->worker + " to " + store::quoted(call->function);
  const RemoteCall* const call = calls.oldest_open(true);
  return call == nullptr ? "" : "runs " + store::quoted(call->function) + " for worker " + call->worker;
}

}  // namespace dlaunch::agent
