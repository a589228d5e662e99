// How the runtime writes them: tests/runtime/rpc/call_log_test.cpp.
#include "agent/model/remote_calls.h"

#include <gtest/gtest.h>

#include "tests/agent/model/made_page.h"

namespace dlaunch::agent {
namespace {

RemoteCalls parse_calls(const MadePage& page) { return parse_remote_calls(page.bytes(), page.bytes()); }

TEST(RemoteCalls, APageWithoutThemHasNone) {
  const MadePage page(0, 2);
  EXPECT_EQ(parse_calls(page).id, -1);
  EXPECT_EQ(describe_state(parse_calls(page)), "");
}

TEST(RemoteCalls, AreReadInTheirOrder) {
  MadePage page(0, 2);
  page.set_worker(0, "trainer");
  page.call(2, "ps", "late", page::Call::sent, 900);
  page.call(1, "ps", "early", page::Call::succeeded, 100).ended_ns = 300;
  page.call(7, "b\x1b", "get", page::Call::running, 500).is_served = 1;
  const RemoteCalls remote = parse_calls(page);
  EXPECT_EQ(remote.worker, "trainer");
  ASSERT_EQ(remote.calls.size(), 3U);
  EXPECT_EQ(remote.calls[0].function, "early");
  EXPECT_EQ(remote.calls[0].ended_ns, 300);
  EXPECT_EQ(remote.calls[1].worker.find('\x1b'), std::string::npos);
  EXPECT_EQ(remote.calls[2].number, 2U);
  EXPECT_EQ(remote.oldest_open(false), &remote.calls[2]);
  EXPECT_EQ(remote.oldest_open(true), &remote.calls[1]);
  EXPECT_EQ(describe(remote.calls[1].state), "running");
}

TEST(RemoteCalls, AThreadThatWaitsMakesTheDifference) {
  MadePage page(0, 2);
  page.set_worker(0, "trainer");
  page.call(2, "ps", "add", page::Call::sent, 900);
  EXPECT_EQ(parse_calls(page).awaited(), nullptr) << "the program goes on meanwhile";
  EXPECT_EQ(describe_state(parse_calls(page)), "");
  page.raw().header.calls.waiting = 1;
  ASSERT_NE(parse_calls(page).awaited(), nullptr);
  EXPECT_EQ(describe_state(parse_calls(page)), "waits for the answer of worker ps to 'add'");
  MadePage callee(1, 2);
  callee.set_worker(1, "ps");
  callee.call(2, "trainer", "add", page::Call::running, 950).is_served = 1;
  EXPECT_EQ(describe_state(parse_calls(callee)), "runs 'add' for worker trainer");
}

TEST(RemoteCalls, WhatIsIncompleteOrImpossibleIsLeftOut) {
  MadePage page(0, 2);
  page.set_worker(0, "trainer");
  page.call(1, "ps", "a", page::Call::sent, 1);
  page::Call& wrong = page.call(2, "ps", "b", page::Call::sent, 2);
  const page::Call right = wrong;
  EXPECT_EQ(parse_calls(page).calls.size(), 2U);
  wrong.seqlock = 3;
  EXPECT_EQ(parse_calls(page).calls.size(), 1U) << "it is being written";
  wrong = right;
  wrong.seqlock += 2;
  EXPECT_EQ(parse_calls(page).calls.size(), 1U) << "another place's";
  wrong = right;
  wrong.state = 99;
  EXPECT_EQ(parse_calls(page).calls.size(), 1U);
  wrong = right;
  wrong.peer = -1;
  EXPECT_EQ(parse_calls(page).calls.size(), 1U);
  wrong = right;
  MadePage earlier = std::move(page);
  MadePage later(0, 2);
  later.raw() = earlier.raw();
  later.raw().calls[1].number = 9;
  EXPECT_EQ(parse_remote_calls(earlier.bytes(), later.bytes()).calls.size(), 1U) << "another one meanwhile";
  later.raw() = earlier.raw();
  later.raw().calls[1].state = page::Call::failed;
  EXPECT_EQ(parse_remote_calls(earlier.bytes(), later.bytes()).calls.size(), 2U) << "it has ended meanwhile";
}

}  // namespace
}  // namespace dlaunch::agent
