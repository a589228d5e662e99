// The usual C++ program: an object that joins the job and leaves it again, and one rank of which an exception
// comes. The exception destroys that object before main prints what it says, so that the other ranks hear of
// the departure first.
//
//   thrower RANK [SECONDS]   this rank throws before its twentieth sum, after it has written "thinking" to
//                            stderr, and needs so long to destroy the rest

#include <dlaunch/distributed.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

constexpr int steps = 200;
constexpr int bad_step = 20;

struct Dist {
  Dist() { dlaunch::init_process_group(); }
  ~Dist() {
    try {
      dlaunch::destroy_process_group();
    } catch (...) {
    }
  }
  Dist(const Dist&) = delete;
  Dist& operator=(const Dist&) = delete;
};

// What else the exception destroys, after the group: a writer of files, say.
struct Rest {
  explicit Rest(double seconds) : time(seconds) {}
  ~Rest() {
    if (std::uncaught_exceptions() > 0) std::this_thread::sleep_for(time);
  }
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;
  std::chrono::duration<double> time;
};

bool is_rank(int rank) {
  const char* const own = std::getenv("RANK");
  return own != nullptr && std::atoi(own) == rank;
}

void run(int bad_rank, double seconds) {
  const Rest rest(is_rank(bad_rank) ? seconds : 0);
  const Dist dist;
  std::vector<float> values(1000);
  for (int step = 1; step <= steps; ++step) {
    if (step == bad_step && is_rank(bad_rank)) {
      std::fputs("thinking\n", stderr);
      throw std::runtime_error("loss is NaN");
    }
    dlaunch::all_reduce(dlaunch::Tensor::of(values));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    run(std::atoi(argv[1]), argc > 2 ? std::atof(argv[2]) : 0);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "thrower: %s\n", e.what());
    return 1;
  }
}
