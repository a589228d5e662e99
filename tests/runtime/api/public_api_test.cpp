// The library as its users see it: public headers, C++20, nothing else.

#include <dlaunch/collective_backend.h>
#include <dlaunch/distributed.h>
#include <dlaunch/dlaunch.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/runtime/api/error_strings.h"

namespace {

static_assert(std::is_base_of_v<std::runtime_error, dlaunch::DistError>);
static_assert(std::is_base_of_v<dlaunch::DistError, dlaunch::DistNetworkError>);
static_assert(std::is_base_of_v<dlaunch::DistError, dlaunch::DistBackendError>);
static_assert(std::is_base_of_v<dlaunch::DistError, dlaunch::DistStoreError>);
static_assert(std::is_nothrow_move_constructible_v<dlaunch::Work>);
static_assert(std::is_trivially_copyable_v<dlaunch::Tensor>);

using dlaunch::test::error_of;

void clear_environment() {
  for (const char* const name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "DLAUNCH_VERSION",
                                 "TORCHELASTIC_RUN_ID", "DLAUNCH_ROUND", "TORCHELASTIC_RESTART_COUNT"}) {
    unsetenv(name);
  }
}

class PublicApi : public testing::Test {
 protected:
  // Before anything looks for a backend: the folders are read once.
  static void SetUpTestSuite() { setenv("DLAUNCH_BACKEND_PATH", TEST_MODULES_DIR, 1); }
};

// A later, incompatible library has another name, and is not taken for this one.
TEST_F(PublicApi, ProgramsAskForTheVersionThatTheyWereLinkedWith) {
  void* const library = dlopen(TEST_LIBRARY_NAME, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(dlsym(library, "dlaunch_last_error"), reinterpret_cast<void*>(&dlaunch_last_error));
  dlclose(library);
}

// A program may use another Nettle: the copy inside the library is not visible outside.
TEST_F(PublicApi, TheArchivesInsideTheLibraryAreNotVisible) {
  void* const library = dlopen(TEST_LIBRARY_NAME, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(dlsym(library, "nettle_hmac_sha256_digest"), nullptr);
  dlclose(library);
}

TEST_F(PublicApi, NothingWorksBeforeInit) {
  const std::string text =
      "the default process group has not been initialized; call init_process_group() first";
  std::vector<float> values(1);
  EXPECT_FALSE(dlaunch::is_initialized());
  EXPECT_EQ(error_of([] { dlaunch::get_rank(); }), text);
  EXPECT_EQ(error_of([] { dlaunch::barrier(); }), text);
  EXPECT_EQ(error_of([&] { dlaunch::all_reduce(dlaunch::Tensor::of(values)); }), text);
  EXPECT_EQ(error_of([] { dlaunch::destroy_process_group(); }), text);
}

TEST_F(PublicApi, InitWithoutALauncherNamesTheMissingVariable) {
  clear_environment();
  EXPECT_EQ(
      error_of([] { dlaunch::init_process_group(); }),
      "cannot find the other ranks: the environment variable WORLD_SIZE is not set; start the program with "
      "dlaunch, which sets it");
  EXPECT_FALSE(dlaunch::is_initialized());
}

TEST_F(PublicApi, WrongOptionsAreRefused) {
  dlaunch::InitOptions options;
  options.init_method = "mpi://";
  EXPECT_EQ(error_of([&] { dlaunch::init_process_group(options); }),
            "cannot use init_method 'mpi://': unknown method; known are env://, tcp://host:port and "
            "file:///path, each with ?rank=R&world_size=N");
  options = {};
  options.timeout = std::chrono::milliseconds(-1);
  EXPECT_EQ(error_of([&] { dlaunch::init_process_group(options); }), "the timeout must be longer than 0 ms");
}

TEST_F(PublicApi, AnUnknownBackendIsRefusedBeforeAnythingIsWaitedFor) {
  clear_environment();
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "1", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "1", 1);
  const auto with_backend = [](const char* backend) {
    return error_of([&] {
      dlaunch::InitOptions options;
      options.backend = backend;
      dlaunch::init_process_group(options);
    });
  };
  EXPECT_EQ(
      with_backend("odd").rfind("rank 0, init_process_group: unknown backend 'odd': known backends: ", 0), 0U)
      << with_backend("odd");
  EXPECT_EQ(
      with_backend("a:b:c"),
      "rank 0, init_process_group: cannot read backend 'a:b:c'; write a name, or one for each device as in "
      "cpu:gloo,cuda:nccl");
  EXPECT_EQ(with_backend("cuda:example"),
            "rank 0, init_process_group: backend 'example' works on cpu, not on 'cuda'");
  EXPECT_TRUE(dlaunch::is_backend_available("example"));
  EXPECT_FALSE(dlaunch::is_backend_available("odd"));
}

TEST_F(PublicApi, ReportsWhetherTheLauncherStartedTheProcess) {
  clear_environment();
  EXPECT_FALSE(dlaunch::is_dlaunch_launched());
  EXPECT_FALSE(dlaunch::is_torchelastic_launched());
  setenv("TORCHELASTIC_RUN_ID", "job", 1);
  EXPECT_TRUE(dlaunch::is_torchelastic_launched());
  EXPECT_FALSE(dlaunch::is_dlaunch_launched());
  setenv("DLAUNCH_VERSION", "0.1.0", 1);
  EXPECT_TRUE(dlaunch::is_dlaunch_launched());
  unsetenv("DLAUNCH_FENCING_TOKEN");
  EXPECT_EQ(dlaunch::fencing_token(), 0U);
  setenv("DLAUNCH_FENCING_TOKEN", "9007199254740991", 1);
  EXPECT_EQ(dlaunch::fencing_token(), 9'007'199'254'740'991U);
  for (const char* wrong : {"", "-1", "9007199254740992", "12 ", "many"}) {
    setenv("DLAUNCH_FENCING_TOKEN", wrong, 1);
    EXPECT_EQ(error_of([] { dlaunch::fencing_token(); }),
              std::string("the environment variable DLAUNCH_FENCING_TOKEN: '") + wrong +
                  "' is not a fencing token");
  }
  unsetenv("DLAUNCH_FENCING_TOKEN");
  unsetenv("LOCAL_RANK");
  EXPECT_EQ(error_of([] { dlaunch::get_node_local_rank(); }),
            "the environment variable LOCAL_RANK is not set; the launcher sets it");
  EXPECT_EQ(dlaunch::get_node_local_rank(3), 3);
  setenv("SLURM_LOCALID", "2", 1);
  EXPECT_EQ(dlaunch::get_node_local_rank(3), 2);
  setenv("MPI_LOCALRANKID", "1", 1);  // mpiexec within a job of Slurm
  EXPECT_EQ(dlaunch::get_node_local_rank(3), 1);
  setenv("LOCAL_RANK", "5", 1);
  EXPECT_EQ(dlaunch::get_node_local_rank(3), 5);
  setenv("LOCAL_RANK", "many", 1);
  EXPECT_EQ(error_of([] { dlaunch::get_node_local_rank(3); }),
            "the environment variable LOCAL_RANK: 'many' is not a rank");
}

}  // namespace
