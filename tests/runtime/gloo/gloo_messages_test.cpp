// Point-to-point messages over Gloo, between processes: what threads cannot show, connections and dead ranks.

#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/thread_count.h"

namespace {

using dlaunch::any_source;
using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::expect_all_say;
using dlaunch::test::host_name;
using dlaunch::test::RankResult;
using dlaunch::test::run_processes;
using dlaunch::test::thread_count;
using dlaunch::test::threads_end;
using dlaunch::test::Variable;

class GlooMessages : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Gloo, GlooMessages, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(GlooMessages, GoFromEveryRankToEveryRank) {
  const int size = GetParam();
  const auto results = run_processes(size, [size](int rank) -> std::string {
    dlaunch::init_process_group();
    for (const std::size_t count : {0U, 1U, 8192U, 8193U, 600001U}) {
      std::vector<std::vector<float>> in(static_cast<std::size_t>(size), std::vector<float>(count, -1.0F));
      const std::vector<float> out(count, static_cast<float>(rank));
      std::vector<dlaunch::P2POp> ops;
      for (int peer = 0; peer < size; ++peer) {
        auto& memory = in[static_cast<std::size_t>(peer)];
        ops.push_back({dlaunch::P2POp::Kind::irecv, Tensor::of(memory), peer, 3});
        ops.push_back({dlaunch::P2POp::Kind::isend, Tensor::of(out), peer, 3});
      }
      for (const dlaunch::Work& work : dlaunch::batch_isend_irecv(ops)) work.wait();
      for (int peer = 0; peer < size; ++peer) {
        const std::vector<float> wanted(count, static_cast<float>(peer));
        if (in[static_cast<std::size_t>(peer)] != wanted) return "wrong at " + std::to_string(count);
      }
      dlaunch::barrier();
    }
    dlaunch::destroy_process_group();
    return "ok";
  });
  expect_all_say(results, "ok");
}

// A short message and a long one each way: one way the send comes before the receive, the other way after.
bool exchange_in(const dlaunch::ProcessGroup& group, int first_sender) {
  const int peer = 1 - group.rank();
  const std::vector<float> short_one(10, static_cast<float>(group.rank()));
  const std::vector<float> long_one(100'000, static_cast<float>(group.rank()));
  std::vector<float> short_in(short_one.size(), -1.0F);
  std::vector<float> long_in(long_one.size(), -1.0F);
  std::vector<dlaunch::Work> works;
  const auto send = [&] {
    works.push_back(group.isend(Tensor::of(short_one), peer));
    works.push_back(group.isend(Tensor::of(long_one), peer));
  };
  const auto receive = [&] {
    works.push_back(group.irecv(Tensor::of(short_in), peer));
    works.push_back(group.irecv(Tensor::of(long_in), peer));
  };
  if (group.rank() == first_sender) send();
  group.barrier();
  receive();
  group.barrier();
  if (group.rank() != first_sender) send();
  for (const dlaunch::Work& work : works) work.wait();
  return short_in == std::vector<float>(short_in.size(), static_cast<float>(peer)) &&
         long_in == std::vector<float>(long_in.size(), static_cast<float>(peer));
}

// Threads grow with the groups that exchange messages now, not with those that did earlier.
TEST(GlooMessagesIdle, GroupsHaveNoThreads) {
  const auto results = run_processes(2, [](int) -> std::string {
    dlaunch::init_process_group();
    std::vector<dlaunch::ProcessGroup> groups;
    for (int i = 0; i < 10; ++i) groups.push_back(dlaunch::new_group({0, 1}));
    const std::size_t before = thread_count();
    for (const int first_sender : {0, 1, 0}) {
      for (const dlaunch::ProcessGroup& group : groups) {
        if (!exchange_in(group, first_sender)) return "wrong";
      }
      if (thread_count() == before) return "no thread has taken the messages in";
      if (!threads_end(before)) return std::to_string(thread_count() - before) + " threads stay";
      dlaunch::barrier();
    }
    groups.clear();
    dlaunch::destroy_process_group();
    return "ok";
  });
  expect_all_say(results, "ok");
}

// Exceeded every timeout while each message searched through all the others.
TEST(GlooMessagesMany, AHundredThousandMayBeInFlight) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    dlaunch::init_process_group();
    constexpr int count = 50000;  // each way
    std::vector<int> out(count);
    std::vector<int> in(count, -1);
    std::iota(out.begin(), out.end(), 0);
    std::vector<dlaunch::Work> works;
    for (int& value : in) works.push_back(dlaunch::irecv(Tensor::from(&value, {1}), 1 - rank));
    for (int& value : out) works.push_back(dlaunch::isend(Tensor::from(&value, {1}), 1 - rank));
    for (const dlaunch::Work& work : works) work.wait();
    dlaunch::destroy_process_group();
    return in == out ? "ok" : "wrong order";
  });
  expect_all_say(results, "ok");
}

TEST(GlooMessagesAny, AreTakenOnceEach) {
  const auto results = run_processes(4, [](int rank) -> std::string {
    dlaunch::init_process_group();
    constexpr int rounds = 30;
    for (const std::size_t count : {1U, 100000U}) {
      std::vector<std::int64_t> values(count, rank);
      const dlaunch::PointToPointOptions options{{.tag = static_cast<std::uint32_t>(count), .timeout = {}},
                                                 {}};
      if (rank != 1) {
        for (int i = 0; i < rounds; ++i) dlaunch::send(Tensor::of(values), 1, options);
        continue;
      }
      std::vector<int> seen(4);
      for (int i = 0; i < 3 * rounds; ++i) {
        const int from = dlaunch::recv(Tensor::of(values), any_source, options);
        if (values.back() != from) return "wrong source";
        ++seen[static_cast<std::size_t>(from)];
      }
      if (seen != std::vector<int>{rounds, 0, rounds, rounds}) return "wrong number";
    }
    dlaunch::destroy_process_group();
    return "ok";
  });
  expect_all_say(results, "ok");
}

// A message accepted by send() arrives although its rank leaves at once.
TEST(GlooMessagesAny, SurviveTheirSendersLeaving) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    for (int i = 0; i < 10; ++i) {
      dlaunch::init_process_group();
      std::vector<int> value(50, 7);
      if (rank == 0) {
        dlaunch::send(Tensor::of(value), 1);
      } else {
        value.assign(50, 0);
        dlaunch::recv(Tensor::of(value), 0);
        if (value.back() != 7) return "lost";
      }
      dlaunch::destroy_process_group();
    }
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(GlooMessagesAny, FromARankThatHasLeftAreNotWaitedFor) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<int> value(1);
    std::string said = "left";
    if (rank == 0) {
      try {
        dlaunch::recv(Tensor::of(value), 2);
      } catch (const dlaunch::DistNetworkError& e) {
        said = e.what();
      }
    }
    dlaunch::destroy_process_group();
    return said;
  });
  EXPECT_TRUE(contains(results[0].said, "recv #1 of group default, peer 2")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "it has left the group")) << results[0].said;
}

TEST(GlooMessagesAny, ReceiveFailsWhenAllOthersHaveLeft) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<int> value = {rank};
    std::string said = "left";
    if (rank == 2) dlaunch::send(Tensor::of(value), 0);
    if (rank == 0) {
      dlaunch::recv(Tensor::of(value), any_source);
      said = error_of([&] { dlaunch::recv(Tensor::of(value), any_source); });
    }
    dlaunch::destroy_process_group();
    return said;
  });
  EXPECT_EQ(results[0].said, "rank 0, recv #2 of group default: all other ranks have left the group");
}

// Each rank waits for the next one: only rank 2 can see by itself that rank 3 ended.
std::vector<RankResult> wait_in_a_chain(const std::function<void()>& end_of_the_last) {
  return run_processes(4, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::string said = "not noticed";
    try {
      dlaunch::barrier();  // some may still be in it when the last rank leaves it
      std::vector<int> value(1);
      if (rank == 3) end_of_the_last();
      if (rank < 3) dlaunch::recv(Tensor::of(value), rank + 1);
    } catch (const dlaunch::DistNetworkError& e) {
      const dlaunch::ErrorContext& where = e.context();
      said = where.rank == rank && where.peer == 3 && !where.host.empty() ? e.reason() : e.what();
    }
    if (dlaunch::is_initialized()) dlaunch::destroy_process_group();
    return said;
  });
}

TEST(GlooMessagesDeath, IsTheSameErrorOnRanksInformedByOthers) {
  const auto results = wait_in_a_chain([] { raise(SIGKILL); });
  for (int rank = 0; rank < 3; ++rank) {
    const std::string& said = results[static_cast<std::size_t>(rank)].said;
    EXPECT_EQ(said.find("it died, or the connection to it was lost"), 0) << said;
  }
}

TEST(GlooMessagesDeparture, DepartedPeerIsNamedOnEveryRank) {
  const auto results = wait_in_a_chain([] { dlaunch::destroy_process_group(); });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "it has left the group");
  }
}

// Cases in which Gloo itself would leave the survivor waiting: a receive from any rank, half a message, a
// rank that is idle for a while first.
void expect_death_noticed(int victim, const std::function<void(int)>& communicate) {
  const auto results = run_processes(3, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    dlaunch::barrier();
    try {
      if (rank == victim) {
        std::vector<float> part(4'000'000);
        // Some of it is under way when the process ends.
        dlaunch::isend(Tensor::of(part), 0, {{.tag = 1, .timeout = {}}, {}});
        std::vector<int> go(1);
        dlaunch::recv(Tensor::of(go), 0);
        raise(SIGKILL);
      }
      communicate(rank);
    } catch (const dlaunch::DistNetworkError& e) {
      return e.what();
    }
    return "not noticed";
  });
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    const RankResult& result = results[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(contains(result.said, "peer 2 on ")) << result.said;
    EXPECT_TRUE(contains(result.said, ": it died")) << result.said;
  }
}

TEST(GlooMessagesDeath, WhileReceivingFromAnybody) {
  expect_death_noticed(2, [](int rank) {
    std::vector<int> value(1);
    if (rank == 0) dlaunch::send(Tensor::of(value), 2);
    dlaunch::recv(Tensor::of(value), any_source);
  });
}

TEST(GlooMessagesDeath, InTheMiddleOfAMessage) {
  expect_death_noticed(2, [](int rank) {
    std::vector<float> value(4'000'000);
    std::vector<int> go(1);
    if (rank == 0) {
      const dlaunch::Work part = dlaunch::irecv(Tensor::of(value), 2, {{.tag = 1, .timeout = {}}, {}});
      dlaunch::send(Tensor::of(go), 2);
      part.wait();  // may have arrived
    }
    dlaunch::recv(Tensor::of(value), 2, {{.tag = 2, .timeout = {}}, {}});
  });
}

TEST(GlooMessagesDeath, OnTwoInterfaces) {
  const Variable both("DLAUNCH_SOCKET_IFNAME", "lo,lo");
  expect_death_noticed(2, [](int rank) {
    std::vector<float> value(4'000'000);
    if (rank == 0) {
      std::vector<int> go(1);
      const dlaunch::Work part = dlaunch::irecv(Tensor::of(value), 2, {{.tag = 1, .timeout = {}}, {}});
      dlaunch::send(Tensor::of(go), 2);
      part.wait();  // may have arrived
    }
    dlaunch::recv(Tensor::of(value), any_source);
  });
}

TEST(GlooMessagesDeath, NamesTheHostAlsoInAMonitoredBarrier) {
  const std::string host = host_name();
  const auto results = run_processes(3, [](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<int> go(1);
    if (rank == 2) {
      for (int peer = 0; peer < 2; ++peer) dlaunch::recv(Tensor::of(go), peer);
      raise(SIGKILL);
    }
    dlaunch::send(Tensor::of(go), 2);
    try {
      dlaunch::monitored_barrier();
    } catch (const dlaunch::DistNetworkError& e) {
      return e.what();
    }
    return "not noticed";
  });
  for (int rank = 0; rank < 2; ++rank) {
    const std::string& said = results[static_cast<std::size_t>(rank)].said;
    const std::string place =
        "rank " + std::to_string(rank) + ", monitored_barrier #1 of group default, peer ";
    EXPECT_TRUE(contains(said, place)) << said;
    EXPECT_TRUE(contains(said, " on " + host + ": it ")) << said;
  }
}

// After an error the same processes can form groups again.
TEST(GlooMessagesDeath, OfTheGroupIsNotThatOfTheProcess) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    for (int i = 0; i < 3; ++i) {
      std::vector<float> values(rank == 1 ? 10 : 20000);
      try {
        dlaunch::init_process_group();  // one may have given up already while another still arrives
        dlaunch::all_reduce(Tensor::of(values));
        return "not noticed";
      } catch (const dlaunch::DistNetworkError&) {
        if (dlaunch::is_initialized()) dlaunch::destroy_process_group();
      }
    }
    dlaunch::init_process_group();
    std::vector<int> one = {1};
    dlaunch::all_reduce(Tensor::of(one));
    dlaunch::destroy_process_group();
    return one[0] == 3 ? "ok" : "wrong";
  });
  expect_all_say(results, "ok");
}

TEST(GlooMessagesDeath, WhileSending) {
  expect_death_noticed(2, [](int rank) {
    std::vector<float> value(4'000'000);
    std::vector<int> go(1);
    if (rank == 0) dlaunch::send(Tensor::of(go), 2);
    dlaunch::send(Tensor::of(value), 2, {{.tag = 2, .timeout = {}}, {}});
  });
}

}  // namespace
