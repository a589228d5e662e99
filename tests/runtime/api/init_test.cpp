// The ways in which processes find each other, over Gloo.

#include <dlaunch/backend.h>
#include <dlaunch/debug.h>
#include <dlaunch/device_mesh.h>
#include <dlaunch/distributed.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/forked_copies.h"
#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"
#include "tests/store/client/reserved_port.h"

namespace {

using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::expect_all_say;
using dlaunch::test::RankResult;
using dlaunch::test::run_processes;

// As from a shell: no launcher.
void forget_launcher() {
  for (const char* const name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                 "TORCHELASTIC_USE_AGENT_STORE"}) {
    unsetenv(name);
  }
}

std::string add_up(const dlaunch::InitOptions& options) {
  dlaunch::init_process_group(options);
  std::vector<int> one = {1};
  dlaunch::all_reduce(Tensor::of(one));
  const bool right = one[0] == dlaunch::get_world_size();
  dlaunch::destroy_process_group();
  return right ? "ok" : "wrong";
}

dlaunch::InitOptions numbered(int rank, int world_size) {
  dlaunch::InitOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.timeout = std::chrono::seconds(50);
  return options;
}

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "dlaunch_init_test.XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(Init, RankZeroServesTheStoreOfATcpMethod) {
  const dlaunch::test::ReservedPort port;
  expect_all_say(run_processes(3,
                               [&](int rank) {
                                 forget_launcher();
                                 dlaunch::InitOptions options = numbered(rank, 3);
                                 options.init_method =
                                     "tcp://127.0.0.1:" + std::to_string(port.address().port);
                                 const std::string first = add_up(options);
                                 return first == "ok" ? add_up(options) : first;  // and again
                               }),
                 "ok");
}

TEST(Init, RankZeroServesTheStoreWhereNoAgentDoes) {
  const dlaunch::test::ReservedPort port;
  expect_all_say(run_processes(2,
                               [&](int) {
                                 unsetenv("TORCHELASTIC_USE_AGENT_STORE");
                                 setenv("MASTER_PORT", std::to_string(port.address().port).c_str(), 1);
                                 return add_up({});
                               }),
                 "ok");
}

TEST(Init, AServedPortIsRefusedWithAHint) {
  const auto results = run_processes(1, [](int) {
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");  // although there is a server
    return add_up({});
  });
  EXPECT_TRUE(contains(results[0].said, "rank 0 cannot serve the store at 127.0.0.1:")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "TORCHELASTIC_USE_AGENT_STORE=True")) << results[0].said;
}

TEST(Init, AFileIsEnough) {
  const Folder folder;
  const std::string file = folder.file("meet");
  const auto body = [&](int rank) {
    forget_launcher();
    dlaunch::InitOptions options = numbered(rank, 4);
    options.init_method = "file://" + file;
    return add_up(options);
  };
  expect_all_say(run_processes(4, body), "ok");
  EXPECT_FALSE(std::filesystem::exists(file));
  expect_all_say(run_processes(4, body), "ok");  // a second job
}

TEST(Init, SeveralWorldsMayUseOneFile) {
  const Folder folder;
  expect_all_say(run_processes(4,
                               [&](int rank) {
                                 forget_launcher();
                                 dlaunch::InitOptions options = numbered(rank / 2, 2);
                                 options.init_method = "file://" + folder.file("meet");
                                 options.group_name = rank % 2 == 0 ? "even" : "odd";
                                 return add_up(options);
                               }),
                 "ok");
}

TEST(Init, LeftOversInAFileAreRecognised) {
  const Folder folder;
  const auto join = [&](bool crash) {
    return run_processes(2, [&, crash](int rank) {
      forget_launcher();
      dlaunch::InitOptions options = numbered(rank, 2);
      options.init_method = "file://" + folder.file("meet");
      dlaunch::init_process_group(options);
      dlaunch::barrier();
      if (crash) _exit(1);
      return std::string("joined");
    });
  };
  join(true);
  for (const RankResult& result : join(false)) {
    EXPECT_TRUE(contains(result.said, "two processes have joined as rank")) << result.said;
    EXPECT_TRUE(contains(result.said, "file of file://")) << result.said;
  }
}

TEST(Init, AStoreOfTheProgramIsEnough) {
  const Folder folder;
  expect_all_say(run_processes(2,
                               [&](int rank) {
                                 forget_launcher();
                                 dlaunch::InitOptions options = numbered(rank, 2);
                                 options.store = dlaunch::make_file_store(folder.file("store"), 2);
                                 return add_up(options);
                               }),
                 "ok");
}

// In the copy the server's thread does not run; its handle ends nothing, and it may serve a store of its own.
TEST(Init, AForkedCopyDoesNotEndTheServerOfAStore) {
  if (dlaunch::test::copies_may_hang) GTEST_SKIP() << "AddressSanitizer's allocator may hang in a copy";
  expect_all_say(
      run_processes(1,
                    [](int) -> std::string {
                      dlaunch::TcpKeyValueStoreOptions options;
                      options.is_master = true;
                      auto store = dlaunch::make_tcp_store("127.0.0.1", 0, options);
                      const pid_t copy = fork();
                      if (copy == 0) {
                        const auto own = dlaunch::make_tcp_store("127.0.0.1", 0, options);
                        own->set("key", "of the copy");
                        store.reset();
                        _exit(own->get("key") == "of the copy" ? 0 : 1);
                      }
                      int status = -1;
                      waitpid(copy, &status, 0);
                      if (status != 0) return "the copy failed";
                      dlaunch::TcpKeyValueStoreOptions client;
                      dlaunch::make_tcp_store("127.0.0.1", store->port(), client)->set("key", "whole");
                      return store->get("key");
                    }),
      "whole");
}

TEST(Init, GroupsAndMeshesWorkBetweenProcesses) {
  expect_all_say(
      run_processes(4,
                    [](int rank) -> std::string {
                      dlaunch::init_process_group();
                      const dlaunch::DeviceMesh mesh = dlaunch::init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
                      for (const char* const dim : {"dp", "tp"}) {
                        std::vector<int> value = {rank};
                        mesh.get_group(dim).all_reduce(Tensor::of(value));
                        const int wanted = std::string(dim) == "tp" ? rank / 2 * 4 + 1 : rank % 2 * 2 + 2;
                        if (value[0] != wanted) return std::string("wrong in ") + dim;
                      }
                      const dlaunch::ProcessGroup pair = dlaunch::new_group({1, 3});
                      if (rank % 2 == 1) {
                        std::vector<int> value = {1};
                        pair.all_reduce(Tensor::of(value));
                        if (value[0] != 2) return "wrong in new_group";
                      }
                      dlaunch::destroy_process_group();
                      return "ok";
                    }),
      "ok");
}

// A rank alone that may open so many files more; it serves the store.
RankResult rank_with_files(rlim_t free, std::chrono::milliseconds timeout) {
  const dlaunch::test::ReservedPort port;
  return run_processes(1, [&](int) {
    forget_launcher();
    dlaunch::InitOptions options = numbered(0, 1);
    options.init_method = "tcp://127.0.0.1:" + std::to_string(port.address().port);
    options.timeout = timeout;
    const auto next = static_cast<rlim_t>(dup(0));
    close(static_cast<int>(next));
    const rlimit few{next + free, next + free};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return std::string("no limit");
    return add_up(options);
  })[0];
}

TEST(Init, ErrorNamesTheDescriptorLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own needs would meet the limit first";
#endif
  for (rlim_t free = 0; free < 24; ++free) {
    const RankResult result = rank_with_files(free, std::chrono::milliseconds(500));
    EXPECT_EQ(result.status, 0) << free << " files";
    EXPECT_TRUE(result.said == "ok" || contains(result.said, "threw: ")) << free << ": " << result.said;
    if (free == 0) {
      EXPECT_NE(result.said, "ok");
    }
  }
  EXPECT_EQ(rank_with_files(100, std::chrono::seconds(50)).said, "ok");
}

// Gloo, but where `victim` is this rank's its process ends.
int victim = -1;
std::unique_ptr<dlaunch::Backend> die_or_connect(const dlaunch::BackendContext& context) {
  if (context.rank == victim) (void)std::raise(SIGKILL);
  void* const library = dlopen(DLAUNCH_BUILD_DIR "/lib/dlaunch/backend_gloo.so", RTLD_NOW | RTLD_LOCAL);
  void* const module = library ? dlsym(library, "dlaunch_backend_module") : nullptr;
  if (!module) throw dlaunch::DistBackendError("there is no gloo");
  return static_cast<const dlaunch::BackendModule*>(module)->create(context);
}

const dlaunch::BackendModule deadly{.name = "deadly",
                                    .devices = "cpu",
                                    .viable = [](std::string&) { return true; },
                                    .create = die_or_connect};

// The rank has joined and has sent nothing yet.
std::vector<RankResult> one_dies_between_joining_and_connecting(int dying, bool rank_zero_serves) {
  const dlaunch::test::ReservedPort port;
  const dlaunch::test::ReservedPort second_port;
  return run_processes(4, [&](int rank) -> std::string {
    if (rank_zero_serves) {
      unsetenv("TORCHELASTIC_USE_AGENT_STORE");
      setenv("MASTER_PORT", std::to_string(port.address().port).c_str(), 1);
    }
    dlaunch::register_backend(deadly);
    victim = dying;
    dlaunch::InitOptions first;
    first.backend = "deadly";
    const std::string said = dlaunch::test::error_of([&] { dlaunch::init_process_group(first); });
    // The remaining ranks make another group.
    dlaunch::InitOptions options = numbered(rank < dying ? rank : rank - 1, 3);
    options.init_method = "tcp://127.0.0.1:" + std::to_string(second_port.address().port);
    return said + "; " + add_up(options);
  });
}

TEST(Init, ARankThatDiesBeforeTheFirstConnectionIsNamedByAllOthers) {
  for (const bool rank_zero_serves : {false, true}) {
    const auto results = one_dies_between_joining_and_connecting(2, rank_zero_serves);
    for (const int rank : {0, 1, 3}) {
      EXPECT_EQ(results[static_cast<std::size_t>(rank)].said,
                "rank " + std::to_string(rank) + ", init_process_group, peer 2 on " +
                    dlaunch::test::host_name() + ": its process ended while the ranks were connecting; ok")
          << (rank_zero_serves ? "with a store of rank 0" : "with another's store");
    }
  }
}

TEST(Init, ARankThatDiesWithTheStoreIsNamedByAllOthers) {
  const auto results = one_dies_between_joining_and_connecting(0, true);
  for (std::size_t rank = 1; rank < results.size(); ++rank) {
    const std::string& said = results[rank].said;
    EXPECT_TRUE(contains(said, "init_process_group, peer 0 on ")) << said;
    EXPECT_TRUE(contains(said, "; ok")) << said;
  }
}

TEST(Init, ARankThatDiesWithTheStoreWhileAGroupIsMadeIsNamedByAllOthers) {
  const dlaunch::test::ReservedPort port;
  const auto results = run_processes(3, [&](int rank) -> std::string {
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    setenv("MASTER_PORT", std::to_string(port.address().port).c_str(), 1);
    dlaunch::register_backend(deadly);
    dlaunch::init_process_group();
    victim = 0;
    dlaunch::NewGroupOptions options;
    options.backend = "deadly";
    try {
      (void)dlaunch::new_group({}, options);
    } catch (const dlaunch::DistNetworkError& e) {
      const dlaunch::ErrorContext& place = e.context();
      return std::to_string(place.rank - rank) + ", " + place.operation + ", peer " +
             std::to_string(place.peer) + " on " + place.host;
    }
    return "nothing";
  });
  for (const std::size_t rank : {1U, 2U})
    EXPECT_EQ(results[rank].said, "0, new_group, peer 0 on " + dlaunch::test::host_name());
}

// Rank 0 waits for the others' calls to compare them with its own; the others do not publish theirs.
TEST(Init, RanksThatCompareNameThoseThatDoNot) {
  const dlaunch::test::ProcessBarrier all_know(3);
  const auto results = run_processes(3, [&](int rank) -> std::string {
    if (rank == 0) dlaunch::set_debug_level(dlaunch::DebugLevel::detail);
    std::string said;
    dlaunch::set_log_handler([&said](dlaunch::LogLevel level, const std::string& message) {
      if (level == dlaunch::LogLevel::warning) said += message + "; ";
    });
    dlaunch::init_process_group();
    if (rank == 0) {
      dlaunch::CollectiveOptions options;
      options.timeout = std::chrono::milliseconds(50);
      said += dlaunch::test::error_of([&] { dlaunch::barrier(options); });
    }
    all_know.meet();
    return said;
  });
  EXPECT_EQ(
      results[0].said,
      "the debug level is DETAIL, but not on ranks 1, 2: collectives of the other ranks will time out. "
      "Set one level on all ranks: set_debug_level(); rank 0, barrier #1 of group default, peer 1 on " +
          dlaunch::test::host_name() +
          ": ranks 1, 2 did not call anything before the deadline; this group's other ranks call "
          "barrier(); the calls of ranks 1, 2 are not compared: the debug level there was not DETAIL when "
          "the ranks joined");
  EXPECT_EQ(results[1].said, "");
}

TEST(Init, TwoProcessesWithOneRankAreRejected) {
  const dlaunch::test::ProcessBarrier both_run(2);
  const auto results = run_processes(2, [&](int) -> std::string {
    setenv("RANK", "0", 1);
    dlaunch::InitOptions options;
    options.timeout = std::chrono::seconds(2);
    both_run.meet();
    dlaunch::init_process_group(options);
    return "joined";
  });
  const bool first_told = contains(results[0].said, "two processes have joined as rank 0");
  const bool second_told = contains(results[1].said, "two processes have joined as rank 0");
  EXPECT_TRUE(first_told != second_told) << results[0].said << "\n" << results[1].said;
}

}  // namespace
