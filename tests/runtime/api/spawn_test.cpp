// Processes that a program starts itself.

#include <dlaunch/distributed.h>
#include <dlaunch/spawn.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using dlaunch::Tensor;

void add_up(int rank, int size) {
  dlaunch::init_process_group();
  std::vector<int> value = {rank};
  dlaunch::all_reduce(Tensor::of(value));
  if (value[0] != size * (size - 1) / 2) throw std::runtime_error("wrong sum");
  if (dlaunch::get_node_local_rank() != rank) throw std::runtime_error("wrong local rank");
  dlaunch::destroy_process_group();
}

std::string failure_of(const std::function<void(int)>& body, int size, int& rank) {
  try {
    dlaunch::spawn(body, size);
  } catch (const dlaunch::SpawnError& e) {
    rank = e.context().rank;
    return e.reason();
  }
  return "no failure";
}

class Spawned : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Processes, Spawned, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(Spawned, FormAGroup) {
  const int size = GetParam();
  for (int i = 0; i < 2; ++i) dlaunch::spawn([size](int rank) { add_up(rank, size); }, size);
}

// What the inner ones do with their copy of the outer world is no harm to it.
TEST(Spawn, CanBeNested) {
  dlaunch::spawn(
      [](int rank) {
        dlaunch::spawn([](int inner) { add_up(inner, 2); }, 2);
        add_up(rank, 2);
      },
      2);
}

TEST(Spawn, RethrowsTheFirstFailureWithItsRankAndEndsTheOthers) {
  int rank = -1;
  const auto forever = [] {
    for (;;) pause();
  };
  EXPECT_EQ(failure_of(
                [&](int own) {
                  if (own == 1) throw std::runtime_error("no more data");
                  forever();
                },
                3, rank),
            "rank 1 failed: no more data");
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(failure_of(
                [&](int own) {
                  if (own == 2) _exit(7);
                  forever();
                },
                3, rank),
            "rank 2 ended with exit code 7");
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(failure_of(
                [&](int own) {
                  if (own == 0) raise(SIGKILL);
                  forever();
                },
                3, rank),
            "rank 0 was ended by signal 9 (Killed)");
  EXPECT_EQ(rank, 0);
}

// Readable to its end when every process that has the other side has ended.
struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() { close(std::exchange(ends[0], -1)); }
  void close_write() { close(std::exchange(ends[1], -1)); }
  // False where nothing comes in time, or the end.
  bool read_some(void* data, std::size_t size) const {
    pollfd ready{ends[0], POLLIN, 0};
    return poll(&ready, 1, 60'000) == 1 && read(ends[0], data, size) == static_cast<ssize_t>(size);
  }
  [[nodiscard]] bool is_at_end() const {
    pollfd ready{ends[0], POLLIN, 0};
    char byte = 0;
    return poll(&ready, 1, 60'000) == 1 && read(ends[0], &byte, 1) == 0;
  }
  int ends[2] = {-1, -1};
};

TEST(Spawn, ReportsTheFirstFailureAlsoIfItsConsequencesEndEarlier) {
  Pipe others;  // those of rank 2
  auto running = dlaunch::start_processes(
      [&others](int rank) {
        if (rank == 2) others.close_write();
        dlaunch::init_process_group();
        if (rank == 2) {
          dlaunch::default_group().abort("no more data");
          if (!others.is_at_end()) throw std::logic_error("the others have not noticed");
          throw std::runtime_error("no more data");
        }
        std::vector<float> values(4);
        dlaunch::all_reduce(Tensor::of(values));
      },
      3);
  others.close_write();
  for (int i = 0; i < 2; ++i) {  // it does not forget
    try {
      running.join();
      ADD_FAILURE() << "no failure";
    } catch (const dlaunch::SpawnError& e) {
      EXPECT_EQ(e.reason(), "rank 2 failed: no more data");
      EXPECT_EQ(e.context().rank, 2);
    }
  }
}

TEST(Spawn, NamesTheKilledRankAndNotItsPeers) {
  int rank = -1;
  EXPECT_EQ(failure_of(
                [](int own) {
                  dlaunch::init_process_group();
                  if (own == 1) raise(SIGKILL);
                  std::vector<float> values(4);
                  dlaunch::all_reduce(Tensor::of(values));
                },
                3, rank),
            "rank 1 was ended by signal 9 (Killed)");
  EXPECT_EQ(rank, 1);
}

// Others left it waiting, and have ended well.
TEST(Spawn, RankThatWaitsForADepartedPeerIsTheFirstFailure) {
  int rank = -1;
  const std::string failure = failure_of(
      [](int own) {
        dlaunch::init_process_group();
        std::vector<float> values(4);
        if (own == 1) dlaunch::all_reduce(Tensor::of(values));
      },
      2, rank);
  EXPECT_NE(failure.find("it has left the group"), std::string::npos) << failure;
  EXPECT_EQ(rank, 1);
}

TEST(Spawn, ProcessThatIgnoresSigtermIsKilled) {
  dlaunch::SpawnOptions options;
  options.grace = std::chrono::milliseconds(50);
  try {
    dlaunch::spawn(
        [](int rank) {
          // Before rank 1 fails, or the request would find the default still in place.
          signal(SIGTERM, SIG_IGN);
          dlaunch::init_process_group();
          dlaunch::barrier();
          if (rank == 1) throw std::runtime_error("stop");
          for (;;) pause();
        },
        2, options);
    ADD_FAILURE() << "no failure";
  } catch (const dlaunch::SpawnError& e) {
    EXPECT_EQ(e.reason(), "rank 1 failed: stop");
  }
}

TEST(Spawn, ForkedChildFlushesNoOutputTwice) {
  // Output that was not written yet when the copies were made, and a function's state.
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  std::FILE* const out = fdopen(pipe_ends[1], "w");
  std::fputs("once ", out);
  std::vector<int> before = {1, 2, 3};
  dlaunch::spawn(
      [&](int rank) {
        if (before.size() != 3) throw std::runtime_error("the state is lost");
        before.clear();
        if (rank == 0) std::fputs("rank 0", out);
      },
      2);
  EXPECT_EQ(before.size(), 3U);  // the copies' changes are their own
  std::fclose(out);
  char text[64] = {};
  ASSERT_GT(read(pipe_ends[0], text, sizeof text - 1), 0);
  EXPECT_EQ(std::string(text), "once rank 0");
  close(pipe_ends[0]);
}

TEST(Spawn, TheProcessesEndWithTheOneThatStartedThem) {
  Pipe told;  // the numbers of the ranks; whoever is left has its other end
  const pid_t parent = fork();
  if (parent == 0) {
    dlaunch::spawn(
        [&told](int) {
          const pid_t own = getpid();
          (void)!write(told.ends[1], &own, sizeof own);
          for (;;) pause();
        },
        2);
    _exit(0);
  }
  told.close_write();
  pid_t ranks[2] = {};
  for (pid_t& rank : ranks) EXPECT_TRUE(told.read_some(&rank, sizeof rank));
  EXPECT_EQ(kill(parent, SIGKILL), 0);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  const bool ended = told.is_at_end();
  EXPECT_TRUE(ended);
  for (const pid_t rank : ranks) {
    if (!ended && rank > 0) kill(rank, SIGKILL);
  }
}

TEST(Spawn, TheProcessesOutliveTheThreadThatStartedThem) {
  Pipe go;
  std::optional<dlaunch::SpawnContext> running;
  std::thread([&] {
    running = dlaunch::start_processes(
        [&go](int) {
          go.close_write();
          if (!go.is_at_end()) throw std::runtime_error("nobody said so");
        },
        2);
  }).join();
  EXPECT_FALSE(running->join(std::chrono::milliseconds(50)));
  go.close_write();
  EXPECT_TRUE(running->join());
}

TEST(Spawn, CanBeWaitedForWithALimitAndGivenUp) {
  auto running = dlaunch::start_processes(
      [](int) {
        for (;;) pause();
      },
      2);
  EXPECT_EQ(running.pids().size(), 2U);
  EXPECT_FALSE(running.join(std::chrono::milliseconds(20)));
  const std::vector<int> pids = running.pids();
  { const auto ending = std::move(running); }
  for (const int pid : pids) EXPECT_EQ(kill(pid, 0), -1);
}

// This process plays the debugger. The timeout of the group is shorter than the stop.
TEST(Breakpoint, StopsOneRankAndHoldsTheOthersUntilItHasGoneOn) {
  Pipe passed;  // a byte from each rank behind the breakpoint
  auto running = dlaunch::start_processes(
      [&passed](int rank) {
        dlaunch::InitOptions options;
        options.timeout = std::chrono::seconds(30);
        dlaunch::init_process_group(options);
        dlaunch::default_group().set_timeout(std::chrono::milliseconds(100));
        dlaunch::breakpoint(1);
        (void)!write(passed.ends[1], &rank, 1);
        dlaunch::default_group().set_timeout(std::chrono::seconds(30));
        dlaunch::barrier();
        dlaunch::breakpoint(1);  // there may be several
        dlaunch::destroy_process_group();
      },
      3);
  const pid_t rank_1 = running.pids()[1];
  const auto nobody_passes = [&] {
    pollfd ready{passed.ends[0], POLLIN, 0};
    return poll(&ready, 1, 500) == 0;
  };
  EXPECT_TRUE(nobody_passes());  // all of them wait for a debugger
  if (ptrace(PTRACE_SEIZE, rank_1, nullptr, nullptr) != 0) GTEST_SKIP() << "no tracing here";
  for (int stops = 1; stops <= 2; ++stops) {
    int status = 0;
    ASSERT_EQ(waitpid(rank_1, &status, 0), rank_1);
    EXPECT_TRUE(WIFSTOPPED(status));
    EXPECT_EQ(WSTOPSIG(status), SIGTRAP);
    if (stops == 1) {
      EXPECT_TRUE(nobody_passes());
    }
    const auto how = stops == 1 ? PTRACE_CONT : PTRACE_DETACH;
    ASSERT_EQ(ptrace(how, rank_1, nullptr, nullptr), 0);
    char byte = 0;
    for (int rank = 0; stops == 1 && rank < 3; ++rank) EXPECT_TRUE(passed.read_some(&byte, 1));
  }
  EXPECT_TRUE(running.join());
}

// What PyTorch logs where ranks differ under DETAIL.
TEST(Detail, ErrorsShowTheCallStackIfAsked) {
  for (const bool asked : {true, false}) {
    dlaunch::spawn(
        [asked](int rank) {
          setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 1);
          setenv("TORCH_SHOW_CPP_STACKTRACES", asked ? "1" : "0", 1);
          dlaunch::init_process_group();
          std::vector<float> values(4);
          std::string said = "no error";
          try {
            if (rank == 0) {
              dlaunch::all_reduce(Tensor::of(values));
            } else {
              dlaunch::broadcast(Tensor::of(values), 0);
            }
          } catch (const dlaunch::DistNetworkError& e) {
            said = e.what();
          }
          const std::string differs = "the ranks call different operations";
          const std::string own = std::string("dlaunch::v1::") + (rank == 0 ? "all_reduce" : "broadcast") +
                                  "(dlaunch::v1::Tensor";
          const bool shown =
              said.find("\ncall stack:\n  #0 ") != std::string::npos && said.find(own) != std::string::npos;
          if (said.find(differs) == std::string::npos || shown != asked) throw std::runtime_error(said);
          dlaunch::barrier();  // nothing is broken
          dlaunch::destroy_process_group();
        },
        2);
  }
}

TEST(Spawn, OptionsThatContradictTheRankAreRefused) {
  dlaunch::spawn(
      [](int rank) {
        const auto refused = [](int given_rank, int world_size) {
          dlaunch::InitOptions options;
          options.rank = given_rank;
          options.world_size = world_size;
          try {
            dlaunch::init_process_group(options);
          } catch (const dlaunch::DistError& e) {
            return std::string(e.what());
          }
          dlaunch::destroy_process_group();
          return std::string("taken");
        };
        const std::string end = ": leave the option out";
        const auto expect = [](const std::string& said, const std::string& wanted) {
          if (said != wanted) throw std::runtime_error(said);
        };
        expect(refused(5, 2),
               "init_process_group: the option rank is 5, but the program that started this rank set it to " +
                   std::to_string(rank) + end);
        expect(refused(rank, 3),
               "init_process_group: the option world_size is 3, but the program that started this rank set "
               "it to 2" +
                   end);
        expect(refused(rank, 2), "taken");
      },
      2);
}

TEST(Spawn, NeedsAProcess) {
  EXPECT_THROW(dlaunch::spawn([](int) {}, 0), dlaunch::DistError);
}

}  // namespace
