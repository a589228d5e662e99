// What is logged of remote calls, as get_debug_info() and the agent of the job see it.

#include "runtime/rpc/call_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "agent/model/worker_record.h"
#include "dlaunch/profiling.h"

namespace dlaunch::internal {
namespace {

using State = rpc::CallInfo::State;

CallLog::What made(std::uint64_t number, std::string_view function = "add") {
  return {
      .is_served = false, .peer = 1, .worker = "ps", .function = function, .number = number, .bytes = 100};
}
CallLog::What served(std::uint64_t number) {
  return {.is_served = true, .peer = 2, .worker = "other", .function = "get", .number = number, .bytes = 10};
}

TEST(CallLog, ShowsCallsUnderWayAndCountsAll) {
  CallLog log({.rank = 0, .name = "trainer"});
  const CallTag first = log.begin(made(1));
  const CallTag second = log.begin(made(2, "sub"));
  const CallTag third = log.begin(served(1));
  log.advance(first);
  rpc::DebugInfo info = log.info();
  ASSERT_EQ(info.made.size(), 2U);
  EXPECT_EQ(info.made[0].worker, "ps");
  EXPECT_EQ(info.made[0].function, "add");
  EXPECT_EQ(info.made[0].state, State::sent);
  EXPECT_GE(info.made[0].age, info.made[1].age);
  EXPECT_EQ(info.made[1].state, State::queued);
  ASSERT_EQ(info.served.size(), 1U);
  EXPECT_EQ(info.served[0].state, State::waiting);
  EXPECT_EQ(info.served[0].function, "get");
  log.advance(third);
  EXPECT_EQ(log.info().served[0].state, State::running);
  log.end(first, true, 7);
  log.end(second, false, 0);
  log.end(third, false, 3);
  log.set_references(1, 2, 3);
  info = log.info();
  EXPECT_TRUE(info.made.empty() && info.served.empty());
  EXPECT_EQ(std::tuple(info.calls, info.succeeded, info.failed), std::tuple(2U, 1U, 1U));
  EXPECT_EQ(std::tuple(info.arrived, info.answered, info.answered_with_error), std::tuple(1U, 1U, 1U));
  EXPECT_EQ(std::tuple(info.bytes_sent, info.bytes_received), std::tuple(203U, 17U));
  EXPECT_EQ(std::tuple(info.owned_references, info.used_references, info.pending_references),
            std::tuple(1U, 2U, 3U));
  EXPECT_EQ(info.total_latency, info.longest_latency);
}

TEST(CallLog, ACallUnderWayKeepsItsPlace) {
  CallLog log({});
  const CallTag slow = log.begin(made(1, "slow"));
  for (std::uint64_t i = 2; i < 5000; ++i) log.end(log.begin(made(i)), true, 0);
  ASSERT_EQ(log.info().made.size(), 1U);
  EXPECT_EQ(log.info().made[0].function, "slow");
  log.end(slow, true, 0);
  EXPECT_EQ(log.info().succeeded, 4999U);
}

TEST(CallLog, CallsWithoutAPlaceAreOnlyCounted) {
  CallLog log({});
  std::vector<CallTag> tags;
  for (std::uint64_t i = 0; i < 2 * page::max_calls; ++i) tags.push_back(log.begin(made(i)));
  EXPECT_EQ(log.info().made.size(), page::max_calls);
  EXPECT_EQ(log.info().calls, 2 * page::max_calls);
  for (const CallTag& tag : tags) {
    log.advance(tag);
    log.end(tag, true, 0);
  }
  EXPECT_TRUE(log.info().made.empty());
  EXPECT_EQ(log.info().succeeded, 2 * page::max_calls);
}

TEST(CallLog, MessagesOfReferencesAreNotLogged) {
  CallLog log({});
  const CallTag tag = log.begin(made(1, reference_function));
  log.advance(tag);
  log.end(tag, true, 5);
  EXPECT_EQ(log.info().calls, 0U);
  EXPECT_EQ(log.info().succeeded, 0U);
}

TEST(CallLog, TheAgentReadsItFromThePage) {
  const auto page = std::make_unique<page::Page>();
  page->header.magic = page::magic;
  page->header.version = page::version;
  page->header.owner = 1;
  page->header.rank = 0;
  page->header.world_size = 4;
  CallLog log({.page = page.get(), .rank = 3, .name = "trainer", .generation = 2});
  const CallTag first = log.begin(made(1, std::string(100, 'f')));
  log.advance(first);
  log.end(log.begin(served(9)), true, 0);
  const ByteSpan bytes = std::as_bytes(std::span(page.get(), 1));
  const auto record = agent::parse_worker_page(bytes, bytes);
  ASSERT_TRUE(record);
  const agent::RemoteCalls& remote = record->remote;
  EXPECT_EQ(remote.id, 3);
  EXPECT_EQ(remote.worker, "trainer");
  EXPECT_EQ(remote.counts.made, 1U);
  ASSERT_EQ(remote.calls.size(), 2U);
  EXPECT_EQ(remote.calls[0].state, page::Call::sent);
  EXPECT_EQ(remote.calls[0].function, std::string(56, 'f'));
  EXPECT_EQ(remote.calls[0].ended_ns, 0);
  EXPECT_EQ(remote.calls[1].state, page::Call::succeeded);
  EXPECT_EQ(remote.calls[1].peer, 2);
  EXPECT_TRUE(remote.calls[1].is_served);
  EXPECT_EQ(remote.calls[1].number, (std::uint64_t{2} << 48U) + 9) << "unlike those of the first meeting";
  EXPECT_EQ(page::moves_of(page->header), 3U);
  log.end(first, true, 0);
  const CallLog next({.page = page.get(), .rank = 3, .name = "trainer"});
  EXPECT_EQ(next.info().calls, 0U) << "counts begin with init_rpc";
}

TEST(CallLog, TheProfilerGetsBothEnds) {
  std::vector<std::tuple<std::string, std::string, std::uint64_t, bool>> ends;
  set_profiling_callback([&](const ProfilingEvent& event) {
    if (event.kind == ProfilingEvent::Kind::end)
      ends.emplace_back(event.name, event.group, event.sequence, event.success);
  });
  CallLog log({.rank = 0, .name = "trainer"});
  const CallTag first = log.begin(made(1));
  const CallTag second = log.begin(made(2));
  log.end(first, true, 0);
  log.end(second, false, 0);
  log.end(log.begin(served(5)), true, 0);
  set_profiling_callback(nullptr);
  log.end(log.begin(made(3)), true, 0);
  using End = decltype(ends)::value_type;
  EXPECT_EQ(ends, (std::vector<End>{{"add", "calls to worker ps", 1, true},
                                    {"add", "calls to worker ps, 2", 2, false},
                                    {"get", "calls of worker other", 5, true}}));
}

}  // namespace
}  // namespace dlaunch::internal
