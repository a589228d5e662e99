// What the gradient reducer costs a parameter: steps of one rank with very many, very small gradients, so
// that the reductions themselves are next to nothing. Medians of steps.
#include <dlaunch/data_parallel.h>
#include <dlaunch/distributed.h>
#include <dlaunch/threads.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using dlaunch::GradientReducer;
using dlaunch::ReducerOptions;
using dlaunch::Tensor;

constexpr std::size_t parameters = 20'000;
constexpr int steps = 101;

// In nanoseconds a parameter.
double step_time(const ReducerOptions& options, const std::function<void(GradientReducer&)>& mark_all) {
  std::vector<float> values(parameters);
  std::vector<dlaunch::Parameter> all;
  for (float& value : values) all.push_back({{}, Tensor::from(&value, {1})});
  GradientReducer reducer(all, options);
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    const auto began = Clock::now();
    reducer.begin_step();
    mark_all(reducer);
    reducer.finish_step();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - began).count() / parameters);
  }
  std::ranges::sort(times);
  return times[steps / 2];
}

void mark_views(GradientReducer& reducer) {
  for (std::size_t i = parameters; i-- > 0;) reducer.mark_ready(i);
}

}  // namespace

int main() {
  dlaunch::run_ranks_as_threads(1, [](int) {
    dlaunch::init_process_group();
    std::vector<float> own(parameters);
    std::vector<Tensor> gradients;
    for (float& value : own) gradients.push_back(Tensor::from(&value, {1}));
    std::printf("gradients in buckets        %6.1f ns a parameter\n", step_time({}, mark_views));
    std::printf("with unused parameters      %6.1f ns\n",
                step_time({.find_unused_parameters = true}, mark_views));
    std::printf("gradients of the caller     %6.1f ns\n", step_time({}, [&](GradientReducer& reducer) {
                  for (std::size_t i = parameters; i-- > 0;) reducer.mark_ready(i, gradients[i]);
                }));
    std::printf("1,000 buckets               %6.1f ns\n",
                step_time({.first_bucket_bytes = 80, .bucket_cap_bytes = 80}, mark_views));
    dlaunch::destroy_process_group();
  });
  return 0;
}
