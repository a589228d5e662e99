// Long messages over several connections between agents: when these are made, that all arrives, strangers,
// ends.

#include <dlaunch/bytes.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "runtime/sockets/dial.h"
#include "tests/runtime/rpc/agents.h"
#include "tests/runtime/rpc/relay.h"
#include "tests/runtime/rpc/tcp_connections.h"
#include "tests/runtime/rpc_protocol/feed.h"
#include "tests/runtime/rpc_protocol/stripes.h"

namespace dlaunch::test {
namespace {

using std::chrono::milliseconds;

void echo_all(const IncomingCall& call) { call.responder->answer(call.body); }

// Front and blocks of the answer, or why there is none.
class Answer final : public CallReceiver {
 public:
  void finish(CallOutcome outcome) override {
    if (auto* const result = std::get_if<codec::Bytes>(&outcome)) {
      got_ = text_of(*result);
    } else if (const auto* const none = std::get_if<NoAnswer>(&outcome)) {
      got_ = "? " + none->text;
    }
    gate_.open();
  }
  std::string text() { return gate_.wait() ? got_ : "nothing"; }

 private:
  Gate gate_;
  std::string got_;
};

std::shared_ptr<Answer> call(Agent& from, std::uint32_t to, codec::Bytes body, milliseconds timeout = {}) {
  auto answer = std::make_shared<Answer>();
  from.call(to, "echo", std::move(body), timeout, answer);
  return answer;
}
codec::Bytes long_body(std::uint64_t salt, std::size_t size) {
  return long_message(PartHead::request, salt, {size}).body;
}
// Makes the connections, and waits for them.
void widen(Agents& agents, std::size_t from, std::size_t connections = 5) {
  const codec::Bytes body = long_body(1, striped_from);
  const auto to = static_cast<std::uint32_t>(1 - from);
  EXPECT_TRUE(call(agents[from], to, body)->text() == text_of(body));
  EXPECT_TRUE(wait_for_tcp_connections(agents[to].self().contact.port, connections));
}

TEST(AgentSides, AreMadeForTheFirstLongMessage) {
  Agents agents(2, Way::tcp, echo_all);
  const std::uint16_t port = agents[1].self().contact.port;
  EXPECT_EQ(call(agents[0], 1, {"short"})->text(), "short");
  const codec::Bytes shorter = long_body(1, striped_from - 64);
  EXPECT_TRUE(call(agents[0], 1, shorter)->text() == text_of(shorter));
  EXPECT_EQ(tcp_connections(port), 1U);
  widen(agents, 0);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const codec::Bytes body = long_body(i, striped_from + i * 100'000);
    EXPECT_TRUE(call(agents[0], 1, body)->text() == text_of(body)) << i;
  }
  EXPECT_EQ(tcp_connections(port), 5U);  // the four and the first
  EXPECT_EQ(tcp_connections(agents[0].self().contact.port), 0U);
}

TEST(AgentSides, AreMadeForALongResultToo) {
  const codec::Bytes result = long_body(1, 3 * striped_from);
  Agents agents(2, Way::tcp, [&](const IncomingCall& one) { one.responder->answer(result); });
  EXPECT_TRUE(call(agents[0], 1, {"short"})->text() == text_of(result));
  EXPECT_TRUE(wait_for_tcp_connections(agents[1].self().contact.port, 5));
  EXPECT_TRUE(call(agents[0], 1, {"short"})->text() == text_of(result));
}

TEST(AgentSides, AreNotMadeIfTheyAreTurnedOff) {
  Agents agents(2, Way::tcp, echo_all, 2, 1);
  const codec::Bytes body = long_body(1, 3 * striped_from);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(call(agents[0], 1, body)->text() == text_of(body));
  EXPECT_EQ(tcp_connections(agents[1].self().contact.port), 1U);
}

TEST(AgentSides, ManyLongAndShortCallsInBothDirectionsAreAnswered) {
  Agents agents(2, Way::tcp, echo_all, 4);
  widen(agents, 0);
  widen(agents, 1);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const std::size_t from = t % 2;
      const auto to = static_cast<std::uint32_t>(1 - from);
      std::vector<std::pair<std::string, std::shared_ptr<Answer>>> calls;
      for (std::size_t i = 0; i < 12; ++i) {
        const codec::Bytes body = t < 4 ? long_body(i, striped_from + (i + t) * 333'333)
                                        : codec::Bytes("short " + std::to_string(i));
        calls.emplace_back(text_of(body), call(agents[from], to, body));
      }
      for (const auto& [body, answer] : calls) EXPECT_TRUE(answer->text() == body);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// As rpc_sync does: the answer ends the wait of a thread that reads the connection.
class LongWait final : public future_detail::State {
 public:
  LongWait() : State(nullptr) {}
};
class SizeReceiver final : public CallReceiver {
 public:
  void finish(CallOutcome outcome) override {
    size = std::get<codec::Bytes>(outcome).size();
    EXPECT_TRUE(state.claim());
    state.complete(nullptr);
  }
  LongWait state;
  std::size_t size = 0;
};

TEST(AgentSides, AThreadThatWaitsGetsALongAnswer) {
  Agents agents(2, Way::tcp, echo_all);
  widen(agents, 0);
  const codec::Bytes body = long_body(1, 2 * striped_from);
  for (int i = 0; i < 50; ++i) {
    const auto receiver = std::make_shared<SizeReceiver>();
    receiver->state.set_helper(agents[0].helper(1));
    agents[0].call(1, "echo", body, {}, receiver);
    EXPECT_TRUE(receiver->state.wait(std::chrono::duration_cast<milliseconds>(rpc_limit)));
    EXPECT_EQ(receiver->size, body.size());
  }
}

// The caller's memory may be another one's afterwards, and the connections go on.
TEST(AgentSides, ALongCallEndsAtItsDeadline) {
  Gate gate;
  Agents agents(2, Way::tcp, [&](const IncomingCall& one) {
    if (one.body.front == "late") gate.wait();
    one.responder->answer(one.body);
  });
  widen(agents, 0);
  for (int i = 0; i < 10; ++i) {
    std::string memory(16 * striped_from, 'm');
    codec::Bytes body("late");
    body.blocks.push_back(
        {std::shared_ptr<const void>(std::shared_ptr<void>(), memory.data()), memory.size()});
    const std::string text = call(agents[0], 1, body, milliseconds(1 + i))->text();
    EXPECT_TRUE(text.starts_with("? worker w1 (rank 1) on host h did not answer 'echo' within")) << text;
    std::ranges::fill(memory, 'x');
  }
  gate.open();
  const codec::Bytes body = long_body(2, 2 * striped_from);
  EXPECT_TRUE(call(agents[0], 1, body)->text() == text_of(body));
}

// Calls end if one connection does, whichever it is, and the next one makes new connections.
TEST(AgentSides, ALostConnectionEndsTheCallsOfItsWorker) {
  Gate gate;
  std::atomic<bool> waits = false;
  Agents agents(2, Way::tcp, [&](const IncomingCall& one) {
    if (waits) gate.wait();
    one.responder->answer(one.body);
  });
  const std::uint16_t port = agents[1].self().contact.port;
  widen(agents, 0);
  waits = true;
  const auto answer = call(agents[0], 1, long_body(1, 2 * striped_from));
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(end_one_tcp_connection(port, 3));
  EXPECT_EQ(
      answer->text(),
      "? 'echo' was sent, no answer: worker w1 (rank 1) on host h died, or the connection to it was lost "
      "(the connection was closed)");
  EXPECT_LT(std::chrono::steady_clock::now() - began, rpc_limit);
  waits = false;
  gate.open();
  widen(agents, 0);
  const codec::Bytes body = long_body(2, 2 * striped_from);
  EXPECT_TRUE(call(agents[0], 1, body)->text() == text_of(body));
}

TEST(AgentSides, CallsReportThatTheirCalleeHasEnded) {
  for (int i = 0; i < 5; ++i) {
    Gate begun;
    Gate gate;
    std::atomic<bool> waits = false;
    Agents agents(2, Way::tcp, [&](const IncomingCall& one) {
      if (waits) {
        begun.open();
        gate.wait();
      }
      one.responder->answer(one.body);
    });
    widen(agents, 0);
    waits = true;
    const auto answer = call(agents[0], 1, long_body(1, 2 * striped_from));
    EXPECT_TRUE(begun.wait());
    std::thread ending([&] { EXPECT_TRUE(agents[1].end("ended", deadline_after(rpc_limit))); });
    EXPECT_EQ(answer->text(),
              "? 'echo' was sent, no answer: worker w1 (rank 1) on host h has ended its remote calls");
    gate.open();
    ending.join();
  }
}

bool ends(int socket) {
  char byte = 0;
  pollfd ready{socket, POLLIN, 0};
  return poll(&ready, 1, 30000) == 1 && recv(socket, &byte, 1, 0) <= 0;
}

// A connection is a further one only if its id is that of a pair that exists.
TEST(AgentSides, StripesOfStrangersAreRejected) {
  Agents agents(2, Way::tcp, echo_all);
  widen(agents, 0);
  const Contact& there = agents[1].self().contact;
  const StripeHead head = StripeHead::of(1, 0, std::uint64_t{1} << 40U);
  for (const ProcessId& pair : {agents[0].self().contact.id, ProcessId(process_id_size, 'x')}) {
    const Descriptor member = dial(there, pair, deadline_after(rpc_limit), {});
    EXPECT_EQ(send(member.get(), &head, sizeof head, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof head));
    EXPECT_TRUE(ends(member.get()));
  }
  Contact wrong = there;
  wrong.key.assign(key_size, 'x');
  EXPECT_THROW(dial(wrong, ProcessId(process_id_size, 'x'), deadline_after(milliseconds(100)), {}),
               DistNetworkError);
  EXPECT_EQ(tcp_connections(there.port), 5U);
  const codec::Bytes body = long_body(2, 2 * striped_from);
  EXPECT_TRUE(call(agents[0], 1, body)->text() == text_of(body));
}

// A stranger that repeats the bytes by which the connections were made does not get one more: each proof is
// for one connection.
TEST(AgentSides, WhatAStrangerHasSeenIsOfNoUse) {
  std::vector<std::shared_ptr<Agent>> agents;
  std::vector<WorkerContact> workers;
  for (const std::uint32_t id : {0U, 1U}) {
    agents.push_back(Agent::make({.name = "w" + std::to_string(id),
                                  .id = id,
                                  .rank = id,
                                  .host = "h",
                                  .address = "127.0.0.1",
                                  .threads = 2,
                                  .on_host = false}));
    workers.push_back(agents.back()->self());
  }
  const std::uint16_t port = workers[1].contact.port;
  Relay relay(port);
  workers[1].contact.port = relay.port();
  for (const auto& agent : agents) agent->start(workers, echo_all);
  const codec::Bytes body = long_body(1, 2 * striped_from);
  EXPECT_TRUE(call(*agents[0], 1, body)->text() == text_of(body));
  EXPECT_TRUE(wait_for_tcp_connections(port, 5));
  EXPECT_TRUE(call(*agents[0], 1, body)->text() == text_of(body));
  const std::vector<std::string> seen = relay.first_bytes();
  EXPECT_EQ(seen.size(), 5U);
  for (const std::string& bytes : seen) {
    ASSERT_GE(bytes.size(), opening_size + answer_size);
    EXPECT_EQ(bytes.substr(0, 40), seen[0].substr(0, 40));  // for whom it is, and the pair's id
    const Descriptor stranger = connect_to_port(port);
    EXPECT_EQ(send(stranger.get(), bytes.data(), opening_size, MSG_NOSIGNAL),
              static_cast<ssize_t>(opening_size));
    std::string challenge(challenge_size, '\0');
    EXPECT_EQ(recv(stranger.get(), challenge.data(), challenge.size(), MSG_WAITALL),
              static_cast<ssize_t>(challenge_size));
    EXPECT_GT(send(stranger.get(), bytes.data() + opening_size, bytes.size() - opening_size, MSG_NOSIGNAL),
              0);
    EXPECT_TRUE(ends(stranger.get()));
  }
  EXPECT_TRUE(call(*agents[0], 1, body)->text() == text_of(body));
  for (const auto& agent : agents) EXPECT_TRUE(agent->end("ended", deadline_after(rpc_limit)));
}

}  // namespace
}  // namespace dlaunch::test
