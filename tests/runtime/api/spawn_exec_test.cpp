// Processes in which this program runs anew.

#include <dlaunch/codec.h>
#include <dlaunch/distributed.h>
#include <dlaunch/spawn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using dlaunch::Tensor;
using Words = std::vector<std::string>;

bool main_has_threads = false;  // of the program that the tests run in

void add_up(int rank, const Words& arguments) {
  if (main_has_threads) throw std::runtime_error("this is a copy");
  dlaunch::init_process_group();
  std::vector<int> value = {rank};
  dlaunch::all_reduce(Tensor::of(value));
  const int size = dlaunch::get_world_size();
  if (std::to_string(size) != arguments.at(0)) throw std::runtime_error("wrong size");
  if (value[0] != size * (size - 1) / 2) throw std::runtime_error("wrong sum");
  if (dlaunch::get_node_local_rank() != rank) throw std::runtime_error("wrong local rank");
  dlaunch::destroy_process_group();
}

void expect_arguments(int rank, const Words& arguments) {
  const Words wanted = {"", std::string("a\0b", 3), "--flag=1", std::string(100'000, 'x')};
  if (arguments.size() != 5) throw std::runtime_error("wrong number");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (arguments[i] != wanted[i]) throw std::runtime_error("wrong argument");
  }
  const auto config = dlaunch::from_bytes<std::map<std::string, double>>(arguments[4]);
  if (config.at("rate") != 0.5 || rank != 0) throw std::runtime_error("wrong object");
}

void fail(int rank, const Words& arguments) {
  if (rank != 1) {
    for (;;) pause();
  }
  if (arguments.at(0) == "throw") throw std::runtime_error("no more data");
  if (arguments.at(0) == "exit") std::exit(7);
  raise(SIGKILL);
}

void exit_well(int, const Words&) { std::exit(0); }

void print_own_name(int, const Words& arguments) {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  if (name != arguments.at(0)) throw std::runtime_error("named " + name);
  if (std::getenv("DLAUNCH_SPAWN")) throw std::runtime_error("the programs that it starts would be ranks");
}

void spawn_others(int rank, const Words&) {
  dlaunch::spawn("add_up", {"2"}, 2);
  add_up(rank, {"2"});
}

std::string failure_of(const std::string& function, const Words& arguments, int size) {
  try {
    dlaunch::spawn(function, arguments, size);
  } catch (const dlaunch::SpawnError& e) {
    return std::to_string(e.context().rank) + ": " + e.reason();
  }
  return "no failure";
}

// Threads of the program as long as a test runs.
class SpawnAnew : public testing::Test {
 protected:
  SpawnAnew() {
    main_has_threads = true;
    thread_ = std::thread([this] {
      std::unique_lock lock(mutex_);  // a copy of the process would find it locked for ever
      changed_.wait(lock, [this] { return over_; });
    });
  }
  ~SpawnAnew() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

TEST_F(SpawnAnew, TheProcessesFormAGroup) {
  for (const int size : {1, 2, 3, 4})
    EXPECT_EQ(failure_of("add_up", {std::to_string(size)}, size), "no failure");
}

TEST_F(SpawnAnew, TheArgumentsAreAnyBytes) {
  const std::map<std::string, double> config = {{"rate", 0.5}};
  EXPECT_EQ(
      failure_of(
          "expect_arguments",
          {"", std::string("a\0b", 3), "--flag=1", std::string(100'000, 'x'), dlaunch::to_bytes(config)}, 1),
      "no failure");
}

TEST_F(SpawnAnew, TheFirstFailureIsReportedAndEndsTheOthers) {
  EXPECT_EQ(failure_of("fail", {"throw"}, 3), "1: rank 1 failed: no more data");
  EXPECT_EQ(failure_of("fail", {"exit"}, 3), "1: rank 1 ended with exit code 7");
  EXPECT_EQ(failure_of("fail", {"kill"}, 2), "1: rank 1 was ended by signal 9 (Killed)");
  EXPECT_EQ(failure_of("exit_well", {}, 2), "no failure");
}

TEST_F(SpawnAnew, AFunctionThatIsNotRegisteredIsReported) {
  EXPECT_EQ(failure_of("nobody", {}, 1),
            "0: rank 0 failed: no function 'nobody' is registered in the new process; "
            "register_spawn_function() has to be called before run_if_spawned()");
}

std::string failure_if_main_forgets(const char* how) {
  setenv("TEST_FORGETS", how, 1);
  std::string said = failure_of("add_up", {"1"}, 1);
  unsetenv("TEST_FORGETS");
  return said;
}

TEST_F(SpawnAnew, AProgramThatDoesNotRunItsFunctionIsReported) {
  EXPECT_EQ(failure_if_main_forgets("1"),
            "0: rank 0 ended with exit code 0 and has not run its function; main() has to call "
            "dlaunch::run_if_spawned()");
}

// Else it would start itself without end.
TEST_F(SpawnAnew, AProgramThatForgetsToRunItsFunctionStartsNoOthers) {
  EXPECT_EQ(failure_if_main_forgets("and spawns"),
            "0: rank 0 ended with exit code 3 and has not run its function; main() has to call "
            "dlaunch::run_if_spawned()");
}

TEST_F(SpawnAnew, TheProcessesKeepTheProgramsName) {
  EXPECT_EQ(failure_of("print_own_name", {std::string("spawn_exec_test").substr(0, 15)}, 1), "no failure");
}

TEST_F(SpawnAnew, CanBeNestedAndWorksBesideAGroup) {
  EXPECT_EQ(failure_of("spawn_others", {}, 2), "no failure");
  dlaunch::InitOptions options;
  options.store = dlaunch::make_hash_store();
  options.rank = 0;
  options.world_size = 1;
  dlaunch::init_process_group(options);
  EXPECT_EQ(failure_of("add_up", {"2"}, 2), "no failure");
  dlaunch::barrier();
  dlaunch::destroy_process_group();
}

TEST_F(SpawnAnew, ANameIsRegisteredOnce) {
  EXPECT_THROW(dlaunch::register_spawn_function("add_up", add_up), dlaunch::DistError);
  EXPECT_THROW(dlaunch::register_spawn_function("none", nullptr), dlaunch::DistError);
  EXPECT_THROW(dlaunch::spawn("add_up", {}, 0), dlaunch::DistError);
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* const forgets = std::getenv("TEST_FORGETS")) {
    if (std::string(forgets) == "1") return 0;
    try {
      dlaunch::spawn("add_up", {"1"}, 1);
    } catch (const dlaunch::DistError&) {
      return 3;
    }
    return 4;
  }
  dlaunch::register_spawn_function("add_up", add_up);
  dlaunch::register_spawn_function("expect_arguments", expect_arguments);
  dlaunch::register_spawn_function("fail", fail);
  dlaunch::register_spawn_function("exit_well", exit_well);
  dlaunch::register_spawn_function("print_own_name", print_own_name);
  dlaunch::register_spawn_function("spawn_others", spawn_others);
  dlaunch::run_if_spawned();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
