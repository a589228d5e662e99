// What the flight recorder costs a collective: begin() and end() on a mapped page, as a group's call has
// them, with the bare cost of the look at the clock that is part of it (the other one, when a call begins, is
// there without a recorder too, for its deadline). Medians of batches.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/record/recorder.h"

namespace {

using namespace dlaunch::internal;
using dlaunch::DType;
using Clock = std::chrono::steady_clock;

constexpr int batches = 31;
constexpr std::uint64_t in_a_batch = 200'000;

template <class F>
double nanoseconds_each(const F& once) {
  std::vector<double> times;
  for (int batch = 0; batch < batches; ++batch) {
    const auto began = Clock::now();
    for (std::uint64_t i = 0; i < in_a_batch; ++i) once();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - began).count() / in_a_batch);
  }
  std::ranges::sort(times);
  return times[batches / 2];
}

// As the agent makes it.
std::string make_page() {
  std::string path = "/dev/shm/dlaunch-recorder-bench-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0 || ftruncate(fd, sizeof(page::Page)) != 0) std::exit(1);
  close(fd);
  return path;
}

}  // namespace

int main() {
  const std::string path = make_page();
  Recorder recorder;
  recorder.open(path, 0, 8);
  const std::vector<int> ranks{0, 1, 2, 3, 4, 5, 6, 7};
  const GroupRecorder group = recorder.add({"bench", "default", "gloo", 0, ranks});
  const GroupRecorder none;
  const GroupRecorder::What what{page::Operation::all_reduce, DType::float32, 1024, 1024};
  unlink(path.c_str());

  const Timeout limit = timeout_from_now(std::chrono::minutes(1));
  std::uint64_t sequence = 0;
  const auto record = [&](const GroupRecorder& into, bool awaited) {
    return [&, awaited] { into.end(into.begin(what, ++sequence, -1, limit, awaited), true); };
  };
  volatile std::int64_t sink = 0;
  const auto look = [&] { sink = Clock::now().time_since_epoch().count(); };
  std::printf("recorded            %6.1f ns a collective\n", nanoseconds_each(record(group, true)));
  std::printf("an asynchronous one %6.1f ns\n", nanoseconds_each(record(group, false)));
  std::printf("of that, the clock  %6.1f ns\n", nanoseconds_each(look));
  std::printf("without a page      %6.1f ns\n", nanoseconds_each(record(none, true)));
  return 0;
}
