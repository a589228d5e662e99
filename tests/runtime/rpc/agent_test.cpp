// Calls between agents over real connections: answers, long and many messages, deadlines, strangers, ends.

#include "runtime/rpc/agent.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/sockets/dial.h"
#include "tests/runtime/rpc/agents.h"

namespace dlaunch::test {
namespace {

using std::chrono::milliseconds;

void echo(const IncomingCall& call) { call.responder->answer(call.body); }

class OverConnections : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, OverConnections, testing::Values(Way::memory, Way::unix_socket, Way::tcp),
                         [](const auto& way) {
                           return way.param == Way::memory        ? "Memory"
                                  : way.param == Way::unix_socket ? "Unix"
                                                                  : "Tcp";
                         });

TEST_P(OverConnections, ACallIsAnswered) {
  Agents agents(2, GetParam(), echo);
  EXPECT_EQ(agents.call(0, 1, "hello")->text(), "= hello");
  EXPECT_EQ(agents.call(1, 0, "")->text(), "= ");
  EXPECT_EQ(agents.call(0, 0, "to itself")->text(), "= to itself");
}

TEST_P(OverConnections, ManyCallsOfAllSizesAreAnswered) {
  Agents agents(2, GetParam(), echo);
  std::vector<std::pair<std::string, std::shared_ptr<Outcome>>> calls;
  for (std::size_t i = 0; i < 120; ++i) {
    const std::size_t size = i % 40 == 0 ? 600'000 + i : i % 7 * 3'000 + i;
    std::string body(size, static_cast<char>('a' + static_cast<int>(i % 26)));
    calls.emplace_back(body, agents.call(i % 2, 1 - i % 2, body));
  }
  for (const auto& [body, outcome] : calls) EXPECT_TRUE(outcome->text() == "= " + body) << body.size();
}

TEST_P(OverConnections, ThreadsCallAtTheSameTime) {
  Agents agents(3, GetParam(), echo, 4);
  std::vector<std::thread> threads;
  for (std::size_t from = 0; from < 3; ++from) {
    threads.emplace_back([&, from] {
      for (std::uint32_t i = 0; i < 300; ++i) {
        const std::string body = std::to_string(from) + "-" + std::to_string(i);
        EXPECT_EQ(agents.call(from, i % 3, body)->text(), "= " + body);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The only thread for functions is taken by one that waits for a call back.
TEST_P(OverConnections, AFunctionMayCallItsCaller) {
  Agents* all = nullptr;
  const auto serve = [&](const IncomingCall& call) {
    if (call.body.front == "inner") return call.responder->answer("done");
    call.responder->answer("outer " + all->call(1, 0, "inner")->text());
  };
  Agents agents(2, GetParam(), serve, 1);
  all = &agents;
  EXPECT_EQ(agents.call(0, 1, "outer")->text(), "= outer = done");
}

TEST_P(OverConnections, AnAnswerMayComeLaterFromAnotherThread) {
  std::mutex mutex;
  std::vector<IncomingCall> kept;
  Gate both;
  Agents agents(
      2, GetParam(),
      [&](IncomingCall call) {
        const std::lock_guard lock(mutex);
        kept.push_back(std::move(call));
        if (kept.size() == 2) both.open();
      },
      1);
  const auto first = agents.call(0, 1, "a");
  const auto second = agents.call(0, 1, "b");
  ASSERT_TRUE(both.wait());  // with one thread for functions
  for (const IncomingCall& call : kept) call.responder->answer("later " + call.body.front);
  EXPECT_EQ(first->text(), "= later a");
  EXPECT_EQ(second->text(), "= later b");
  kept.clear();
  EXPECT_EQ(first->count(), 1U);
}

// The calls before it and after it come to its thread with it. If no other thread may run functions, those
// after it wait.
TEST_P(OverConnections, AFunctionThatWaitsKeepsNoAnswerOfOthers) {
  for (const int threads : {1, 2}) {
    Gate gate;
    const auto serve = [&](const IncomingCall& call) {
      const bool waits = call.body.front == "waits";
      EXPECT_TRUE(!waits || gate.wait());
      call.responder->answer(call.body);
    };
    Agents agents(2, GetParam(), serve, threads);
    EXPECT_EQ(agents.call(0, 1, "connects")->text(), "= connects");
    const auto call_often = [&] {
      std::vector<std::shared_ptr<Outcome>> calls;
      for (int i = 0; i < 300; ++i) calls.push_back(agents.call(0, 1, "passes"));
      return calls;
    };
    const auto before = call_often();
    const auto waiting = agents.call(0, 1, "waits");
    const auto after = call_often();
    for (const auto& other : before) ASSERT_EQ(other->text(), "= passes");
    for (const auto& other : after) ASSERT_TRUE(threads == 1 || other->text() == "= passes");
    EXPECT_EQ(waiting->count(), 0U);
    gate.open();
    EXPECT_EQ(waiting->text(), "= waits");
    for (const auto& other : after) ASSERT_EQ(other->text(), "= passes");
  }
}

// As a thread does that waits for a future.
class Waiting final : public future_detail::State {
 public:
  Waiting() : State(nullptr) {}
};
class StateReceiver final : public CallReceiver {
 public:
  void finish(CallOutcome outcome) override {
    got = std::get<codec::Bytes>(outcome).front;
    EXPECT_TRUE(state.claim());
    state.complete(nullptr);
  }
  Waiting state;
  std::string got;
};

TEST_P(OverConnections, AThreadThatWaitsReadsTheAnswer) {
  Agents agents(2, GetParam(), echo);
  EXPECT_EQ(agents.call(0, 1, "connects")->text(), "= connects");
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto receiver = std::make_shared<StateReceiver>();
        receiver->state.set_helper(agents[0].helper(1));
        // Longer than the rings, at times.
        const std::string body(i % 50 == 0 ? 700'000 : 10, 'x');
        agents[0].call(1, "echo", body, {}, receiver);
        EXPECT_TRUE(receiver->state.wait(std::chrono::duration_cast<milliseconds>(rpc_limit)));
        EXPECT_TRUE(receiver->got == body);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(agents[0].helper(0), nullptr);  // this worker
}

// A thread that reads the connection does not miss what ends calls otherwise.
TEST_P(OverConnections, AThreadThatWaitsEndsAtTheDeadline) {
  Gate gate;
  Agents agents(2, GetParam(), [&](const IncomingCall& call) {
    if (call.body.front == "late") gate.wait();
    call.responder->answer("late");
  });
  EXPECT_EQ(agents.call(0, 1, "connects")->text(), "= late");
  const auto outcome = agents.call(0, 1, "late", milliseconds(20));
  const Waiting never;
  agents[0].helper(1)->help(never, deadline_after(rpc_limit));  // the call's deadline is earlier
  EXPECT_TRUE(outcome->text().starts_with("? worker w1")) << outcome->text();
  gate.open();
}

TEST_P(OverConnections, ACallThatIsDroppedFails) {
  Agents agents(2, GetParam(), [](const IncomingCall&) {});
  EXPECT_EQ(agents.call(0, 1, "a")->text(), "! the function's future was dropped before it was completed");
  EXPECT_EQ(agents.call(0, 0, "a")->text(), "! the function's future was dropped before it was completed");
}

TEST_P(OverConnections, ACallEndsAtItsDeadline) {
  Gate begun;
  Gate gate;
  Agents agents(2, GetParam(), [&](const IncomingCall& call) {
    begun.open();
    gate.wait();
    call.responder->answer("late");
  });
  const auto other = agents.call(0, 1, "a");
  EXPECT_TRUE(begun.wait());  // they are connected
  EXPECT_EQ(agents.call(0, 1, "a", milliseconds(30))->text(),
            "? worker w1 (rank 1) on host h did not answer 'echo' within 30 ms; it was sent, and may still "
            "run there");
  EXPECT_EQ(agents.call(0, 0, "a", milliseconds(30))->text(),
            "? this worker did not answer 'echo' within 30 ms; it was sent, and may still run there");
  EXPECT_EQ(other->count(), 0U);
  gate.open();
  EXPECT_EQ(other->text(), "= late");
}

TEST_P(OverConnections, CallsEndWithTheCalleesRemoteCalls) {
  Gate begun;
  Gate gate;
  Agents agents(2, GetParam(), [&](const IncomingCall& call) {
    begun.open();
    gate.wait();
    call.responder->answer("late");
  });
  const auto outcome = agents.call(0, 1, "a");
  EXPECT_TRUE(begun.wait());
  std::thread ending([&] { EXPECT_TRUE(agents[1].end("ended", deadline_after(rpc_limit))); });
  EXPECT_EQ(outcome->text(),
            "? 'echo' was sent, no answer: worker w1 (rank 1) on host h has ended its remote calls");
  EXPECT_EQ(agents.call(0, 1, "a")->text(),
            "? 'echo' was not sent: worker w1 (rank 1) on host h has ended its remote calls");
  gate.open();
  ending.join();
}

TEST_P(OverConnections, AWorkerThatHasEndedIsNotReached) {
  Agents agents(2, GetParam(), echo);
  EXPECT_TRUE(agents[1].end("ended", deadline_after(rpc_limit)));
  const std::string text = agents.call(0, 1, "a")->text();
  EXPECT_TRUE(text.starts_with("? 'echo' was not sent: worker w1 (rank 1) on host h cannot be reached"))
      << text;
}

TEST_P(OverConnections, IdleMeansThatNoCallWaitsOrRuns) {
  Gate gate;
  Agents agents(2, GetParam(), [&](const IncomingCall& call) {
    gate.wait();
    call.responder->answer("");
  });
  const auto no_check = [] {};
  EXPECT_TRUE(agents[0].wait_until_idle(deadline_after(rpc_limit), no_check));
  EXPECT_EQ(agents[0].calls_so_far(), 0U);
  const auto outcome = agents.call(0, 1, "a");
  EXPECT_FALSE(agents[0].wait_until_idle(deadline_after(milliseconds(10)), no_check));
  EXPECT_EQ(agents[0].waiting_calls(), "worker w1 (rank 1) on host h: 'echo'");
  gate.open();
  EXPECT_TRUE(agents[0].wait_until_idle(deadline_after(rpc_limit), no_check));
  EXPECT_TRUE(agents[1].wait_until_idle(deadline_after(rpc_limit), no_check));
  EXPECT_EQ(agents[0].calls_so_far(), 1U);
  EXPECT_EQ(agents[1].calls_so_far(), 1U);
  EXPECT_EQ(agents[0].waiting_calls(), "");
}

TEST_P(OverConnections, ACallbackRunsAlsoAfterTheEnd) {
  Gate first;
  bool second = false;
  Agents agents(1, GetParam(), echo);
  agents[0].post([&] { first.open(); });
  EXPECT_TRUE(first.wait());
  EXPECT_TRUE(agents[0].end("ended", deadline_after(rpc_limit)));
  agents[0].post([&] { second = true; });
  EXPECT_TRUE(second);
}

TEST(Agent, ReportsAWorkerThatIsNotThere) {
  WorkerContact gone;
  {
    Agents other(1, Way::memory, echo);
    gone = other[0].self();
    EXPECT_FALSE(Agent::is_gone(gone));
  }
  EXPECT_TRUE(Agent::is_gone(gone));
  const auto agent =
      Agent::make({.name = "a", .id = 0, .rank = 0, .host = "h", .address = "127.0.0.1", .threads = 1});
  gone.id = gone.rank = 1;
  gone.name = "b";
  agent->start({agent->self(), gone}, echo);
  const auto outcome = std::make_shared<Outcome>();
  agent->call(1, "f", "body", milliseconds(0), outcome);
  const std::string text = outcome->text();
  EXPECT_TRUE(text.starts_with("? 'f' was not sent: worker b (rank 1) on host h cannot be reached: it died"))
      << text;
  EXPECT_TRUE(agent->end("ended", deadline_after(rpc_limit)));
}

// Workers that come later are found when they are called, and by what they call.
TEST(Agent, FindsWorkersByTheirIds) {
  std::mutex mutex;
  std::map<std::uint32_t, WorkerContact> directory;
  std::atomic<int> asked = 0;
  const auto find = [&](std::uint32_t id) -> std::optional<WorkerContact> {
    ++asked;
    const std::lock_guard lock(mutex);
    const auto at = directory.find(id);
    return at == directory.end() ? std::nullopt : std::optional(at->second);
  };
  std::vector<std::shared_ptr<Agent>> agents;
  for (const std::uint32_t id : {7U, 1U << 20U}) {
    agents.push_back(Agent::make({.name = "w" + std::to_string(id),
                                  .id = id,
                                  .rank = id,
                                  .host = "h",
                                  .address = "127.0.0.1",
                                  .threads = 1}));
    Agent::Observer observer;
    observer.find_worker = find;
    agents.back()->start({agents.back()->self()}, echo, observer);
  }
  const auto text = [&](std::size_t from, std::uint32_t to) {
    const auto outcome = std::make_shared<Outcome>();
    agents[from]->call(to, "f", "body", milliseconds(0), outcome);
    return outcome->text();
  };
  EXPECT_FALSE(agents[0]->knows(1U << 20U));
  {
    const std::lock_guard lock(mutex);
    for (const auto& agent : agents) directory.emplace(agent->self().id, agent->self());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_EQ(text(0, 1U << 20U), "= body"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(agents[1]->knows(7));
  EXPECT_EQ(agents[1]->worker(7).name, "w7");
  EXPECT_EQ(text(1, 7), "= body");
  EXPECT_FALSE(agents[0]->is_gone(1U << 20U));
  EXPECT_EQ(text(0, 8), "? 'f' was not sent: worker 8 has ended its remote calls");
  EXPECT_TRUE(agents[0]->is_gone(8U));
  for (const auto& agent : agents) EXPECT_TRUE(agent->end("ended", deadline_after(rpc_limit)));
}

TEST(Agent, WaitsForItsOwnCallsWhileFunctionsRun) {
  Gate runs;
  Gate may_end;
  Agents agents(2, Way::tcp, [&](IncomingCall call) {
    if (call.body.front == "long") {
      runs.open();
      may_end.wait();
    }
    echo(std::move(call));
  });
  const auto slow = agents.call(1, 0, "long");
  EXPECT_TRUE(runs.wait());
  const auto own = agents.call(0, 1, "short");
  EXPECT_TRUE(agents[0].wait_for_calls(deadline_after(rpc_limit)));
  EXPECT_EQ(own->count(), 1U);
  agents[0].reject_calls();
  EXPECT_EQ(agents.call(1, 0, "late")->text(), "! ");
  EXPECT_FALSE(agents[0].wait_until_idle(deadline_after(milliseconds(1)), [] {}));
  may_end.open();
  EXPECT_TRUE(agents[0].wait_until_idle(deadline_after(rpc_limit), [] {}));
  EXPECT_EQ(slow->text(), "= long");
}

// A stranger's bytes end its connection; a member's wrong bytes end that one, and calls go on.
TEST(Agent, DropsConnectionsThatSendWrongBytes) {
  Agents agents(2, Way::tcp, echo);
  const Contact& there = agents[1].self().contact;
  const auto is_dropped = [](int socket) {
    char byte = 0;
    pollfd ready{socket, POLLIN, 0};
    return poll(&ready, 1, 30000) == 1 && recv(socket, &byte, 1, 0) <= 0;
  };
  Contact wrong = there;
  wrong.key.assign(key_size, 'x');
  EXPECT_THROW(dial(wrong, agents[0].self().contact.id, deadline_after(milliseconds(200)), {}),
               DistNetworkError);
  const Descriptor member = dial(there, agents[0].self().contact.id, deadline_after(rpc_limit), {});
  const std::string bytes(64, 'x');
  EXPECT_EQ(send(member.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 64);
  EXPECT_TRUE(is_dropped(member.get()));
  const Descriptor nameless = dial(there, agents[0].self().contact.id, deadline_after(rpc_limit), {});
  const PartHead head{PartHead::request, 0, 1, 0};
  EXPECT_EQ(send(nameless.get(), &head, sizeof head, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof head));
  EXPECT_TRUE(is_dropped(nameless.get()));
  EXPECT_EQ(agents.call(0, 1, "hello")->text(), "= hello");
}

TEST(Agent, TakesConnectionsAgainAfterManySilentOnes) {
  Agents agents(2, Way::tcp, echo);
  std::vector<Descriptor> strangers;
  const Contact& there = agents[1].self().contact;
  for (std::size_t i = 0; i < 2 * PendingConnections::limit; ++i) {
    strangers.emplace_back([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(there.port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  }
  EXPECT_EQ(agents.call(0, 1, "hello")->text(), "= hello");
}

}  // namespace
}  // namespace dlaunch::test
