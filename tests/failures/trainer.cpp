// A small training loop: 20 ms of computation, then an all_reduce of 1000 floats, and a fault in one rank.
//
//   trainer FAULT RANK [DETAIL]
//
// Before the group is formed: backend (all ranks ask for the backend DETAIL), data (opens the file DETAIL),
// late (never comes to init_process_group). Before the fifth step: exit (with 3), crash (a null pointer),
// throw (nothing catches it), shape (999 floats), order (a broadcast instead), hang (in a computation), stop
// (SIGSTOP), daemons (leaves one behind and returns 0), checkpoint (writes the file DETAIL, as an object that
// leaves the group when an exception comes), memory (takes more and more). From the first step on: slow (five
// times), none.
//
// Each rank leaves its pid in the file pid.RANK of the working directory. The moment of the fault, in
// nanoseconds since 1970, is in the file fault. After the fifth step rank 0 makes the file trained.
#include <dlaunch/distributed.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace trainer {

constexpr int bad_step = 5;
constexpr std::size_t gradients = 1000;

struct Fault {
  std::string name;
  bool is_here = false;  // in this rank
  std::string detail;
};

// Joins the job, and leaves it also when an exception comes: the usual C++ program.
struct Team {
  explicit Team(const dlaunch::InitOptions& options) { dlaunch::init_process_group(options); }
  ~Team() {
    try {
      dlaunch::destroy_process_group();
    } catch (...) {
    }
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
};

[[gnu::noinline]] void read_data(const std::string& path) {
  if (!std::ifstream(path)) throw std::system_error(errno, std::generic_category(), "cannot read " + path);
}

[[gnu::noinline]] void save_checkpoint(const std::string& path) {
  std::ofstream file(path);
  const std::vector<char> state(1 << 20);
  if (!file.write(state.data(), static_cast<std::streamsize>(state.size())).flush())
    throw std::system_error(errno, std::generic_category(), "cannot write " + path);
}

[[gnu::noinline]] void tokenize() { throw std::runtime_error("tokenizer: vocabulary has 31998 entries"); }

[[gnu::noinline]] void forward(bool hangs) {
  volatile bool goes_on = hangs;
  while (goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

[[gnu::noinline]] void write_to(int* weights) { *weights = 1; }

[[noreturn]] void take_memory() {
  std::vector<std::unique_ptr<std::vector<char>>> pieces;
  for (;;) pieces.push_back(std::make_unique<std::vector<char>>(8 << 20, '1'));
}

[[noreturn]] void leave_a_daemon_and_return_0() {
  if (fork() == 0) {
    (void)setsid();
    for (;;) pause();
  }
  dlaunch::destroy_process_group();
  std::exit(0);
}

[[noreturn]] void never_come() {
  for (;;) pause();
}

void record_the_moment() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::ofstream("fault") << std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() << '\n';
}

void go_astray(const Fault& fault) {
  int* volatile nowhere = nullptr;
  record_the_moment();
  if (fault.name == "exit") std::exit(3);
  if (fault.name == "crash") write_to(nowhere);
  if (fault.name == "hang") forward(true);
  if (fault.name == "stop") (void)std::raise(SIGSTOP);
  if (fault.name == "daemons") leave_a_daemon_and_return_0();
  if (fault.name == "memory") take_memory();
  if (fault.name == "checkpoint") save_checkpoint(fault.detail);
  if (fault.name == "throw") {
    std::thread([] { tokenize(); }).join();
  }
}

void take_a_step(const Fault& fault, bool is_bad) {
  const bool is_slow = fault.is_here && fault.name == "slow";
  std::this_thread::sleep_for(std::chrono::milliseconds(is_slow ? 100 : 20));
  forward(false);
  std::vector<float> values(is_bad && fault.name == "shape" ? gradients - 1 : gradients, 1.0F);
  if (is_bad && fault.name == "order") {
    dlaunch::broadcast(dlaunch::Tensor::of(values), 0);
  } else {
    dlaunch::all_reduce(dlaunch::Tensor::of(values));
  }
}

void train(const Fault& fault) {
  if (fault.is_here) record_the_moment();
  if (fault.is_here && fault.name == "data") read_data(fault.detail);
  if (fault.is_here && fault.name == "late") never_come();
  dlaunch::InitOptions options;
  if (fault.name == "backend") options.backend = fault.detail;
  const Team team(options);
  for (int step = 1;; ++step) {
    const bool is_bad = fault.is_here && step == bad_step;
    if (is_bad) go_astray(fault);
    take_a_step(fault, is_bad);
    if (step == bad_step && dlaunch::get_rank() == 0) const std::ofstream trained("trained");
  }
}

}  // namespace trainer

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* const rank = std::getenv("RANK");
  if (rank != nullptr) std::ofstream(std::string("pid.") + rank) << getpid() << '\n';
  try {
    trainer::train({argv[1], rank != nullptr && std::strcmp(rank, argv[2]) == 0, argc > 3 ? argv[3] : ""});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainer: %s\n", error.what());
    return 1;
  }
}
