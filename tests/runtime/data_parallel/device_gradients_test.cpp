// Gradients on a CUDA device: averaged there, in the order of the program's streams.

#include <dlaunch/data_parallel.h>
#include <dlaunch/debug.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/runtime/cuda/device_streams.h"
#include "tests/runtime/data_parallel/reduced_model.h"

namespace dlaunch::test {
namespace {

// Of a group with nccl alone, with gloo through the host, and with both.
class DeviceGradients : public testing::TestWithParam<const char*> {};

const std::vector<std::size_t> sizes = {5, 1, 40, 0, 17, 3};
const ReducerOptions short_buckets = {.first_bucket_bytes = 16, .bucket_cap_bytes = 100};

void init_for(int rank, const std::string& backend) { init(rank, std::chrono::seconds(30), backend); }

Device own_device(int rank) { return {Device::Kind::cuda, device_of(rank)}; }

// Parameters on this rank's device.
struct DeviceModel {
  std::vector<std::unique_ptr<Floats>> values;

  explicit DeviceModel(const std::vector<std::size_t>& all, float fill = 0) {
    for (const std::size_t size : all)
      values.push_back(std::make_unique<Floats>(std::vector<float>(size, fill)));
  }
  [[nodiscard]] std::vector<Parameter> parameters() const {
    std::vector<Parameter> result;
    for (const auto& value : values) result.push_back({.name = "", .value = value->tensor()});
    return result;
  }
};

// In the thread's current stream, as a kernel would.
void write(const Tensor& tensor, const std::vector<float>& values, int rank) {
  if (values.empty()) return;
  const auto stream = static_cast<cudaStream_t>(current_stream(device_of(rank)).handle);
  require(cudaMemcpyAsync(tensor.data(), values.data(), tensor.nbytes(), cudaMemcpyDefault, stream),
          "cudaMemcpyAsync");
}

std::vector<float> read(const Tensor& tensor, int rank) {
  const auto stream = static_cast<cudaStream_t>(current_stream(device_of(rank)).handle);
  std::vector<float> values(tensor.numel());
  require(cudaMemcpyAsync(values.data(), tensor.data(), tensor.nbytes(), cudaMemcpyDefault, stream),
          "cudaMemcpyAsync");
  require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return values;
}

std::vector<float> gradient_values(std::size_t count, int rank, std::size_t parameter, int step) {
  std::vector<float> values(count);
  write_gradient(values, rank, parameter, step);
  return values;
}

// What is wrong with the averages; empty: nothing.
std::string wrong(const GradientReducer& reducer, int rank, int ranks, int step) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (wrong_elements(read(reducer.gradient(i), rank), ranks, i, step) != 0)
      return "parameter " + std::to_string(i) + " in step " + std::to_string(step);
  }
  return "";
}

TEST_P(DeviceGradients, AreAveragedInAnyOrderOfArrival) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const DeviceModel model(sizes, static_cast<float>(rank + 5));
    GradientReducer reducer(model.parameters(), short_buckets);
    if (model.values[2]->get() != std::vector<float>(40, 5)) return std::string("other parameters");
    if (reducer.gradient(2).device() != own_device(rank)) return std::string("another device");
    if (read(reducer.gradient(2), rank) != std::vector<float>(40)) return std::string("no zeros");
    for (int number = 1; number <= 5; ++number) {
      reducer.begin_step();
      for (const std::size_t i : shuffled(sizes.size(), static_cast<unsigned>(100 * number + rank))) {
        write(reducer.gradient(i), gradient_values(sizes[i], rank, i, number), rank);
        reducer.mark_ready(i);
      }
      reducer.finish_step();
      if (std::string what = wrong(reducer, rank, 2, number); !what.empty()) return what;
    }
    const std::uint64_t steps = steps_when_ended([&] { return reducer.statistics(); }, 5);
    const ReducerStatistics statistics = reducer.statistics();
    if (statistics.last.communication.count() == 0) return std::string("no time");
    return std::to_string(steps) + (statistics.rebuilt ? " rebuilt" : "");
  });
  expect_all_say(results, "5 rebuilt");
}

TEST_P(DeviceGradients, OfTheCallerAreCopiedInAndOut) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    const DeviceModel model(sizes);
    const DeviceModel gradients(sizes);
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    GradientReducer reducer(model.parameters(), short_buckets);
    for (int number = 1; number <= repeats; ++number) {
      reducer.begin_step();
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        write(gradients.values[i]->tensor(), gradient_values(sizes[i], rank, i, number), rank);
        reducer.mark_ready(i, gradients.values[i]->tensor());
      }
      reducer.finish_step();
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (wrong_elements(read(gradients.values[i]->tensor(), rank), 2, i, number) != 0)
          return "parameter " + std::to_string(i) + " in step " + std::to_string(number);
      }
    }
    return std::string("right");
  });
  expect_all_say(results, "right");
}

// Threads with streams of their own; a bucket has gradients of all of them, and the host waits for none.
TEST_P(DeviceGradients, OfSeveralStreamsAreReducedAfterAllOfThem) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    constexpr std::size_t threads = 3;
    const DeviceModel model(std::vector<std::size_t>(threads, 9));
    GradientReducer reducer(model.parameters());
    std::vector<cudaStream_t> streams;
    for (std::size_t i = 0; i < threads; ++i) streams.push_back(make_stream());
    std::vector<DeviceModel> gradients;
    for (int number = 0; number < repeats; ++number)
      gradients.emplace_back(std::vector<std::size_t>(threads, 9));
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (int number = 0; number < repeats; ++number) {
      const auto& values = gradients[static_cast<std::size_t>(number)].values;
      reducer.begin_step();
      std::vector<std::thread> running;
      for (std::size_t i = 0; i < threads; ++i) {
        running.emplace_back([&, i] {
          require(cudaSetDevice(device_of(rank)), "cudaSetDevice");
          const cudaStream_t mine = streams[(i + static_cast<std::size_t>(number)) % threads];
          const StreamGuard guard({mine}, device_of(rank));
          write(values[i]->tensor(), gradient_values(9, rank, i, number), rank);
          reducer.mark_ready(i, values[i]->tensor());
        });
      }
      for (std::thread& thread : running) thread.join();
      const StreamGuard guard({streams[0]}, device_of(rank));
      reducer.finish_step();
    }
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (int number = 0; number < repeats; ++number) {
      for (std::size_t i = 0; i < threads; ++i) {
        if (wrong_elements(gradients[static_cast<std::size_t>(number)].values[i]->get(), 2, i, number) != 0)
          return "gradient " + std::to_string(i) + " of step " + std::to_string(number);
      }
    }
    return std::string("right");
  });
  expect_all_say(results, "right");
}

TEST_P(DeviceGradients, OfParametersThatNoRankUsedAreZero) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const DeviceModel model({1, 1, 1});
    GradientReducer reducer(model.parameters(), {.find_unused_parameters = true});
    std::string said;
    for (int number = 0; number < 2; ++number) {
      reducer.begin_step();
      // 0: used by both; 1: by rank 1; 2: by none.
      for (std::size_t i = 0; i < 2; ++i) {
        if (i > 0 && rank == 0) continue;
        write(reducer.gradient(i), {8}, rank);
        reducer.mark_ready(i);
      }
      reducer.finish_step();
      for (std::size_t i = 0; i < 3; ++i)
        said += text_of(read(reducer.gradient(i), rank)) + (reducer.used(i) ? " used, " : ", ");
    }
    return said;
  });
  expect_all_say(results, "8 used, 4 used, 0, 8 used, 4 used, 0, ");
}

TEST_P(DeviceGradients, AddUpInNoSync) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const DeviceModel model({2});
    GradientReducer reducer(model.parameters());
    const Floats own({0.0F, static_cast<float>(rank)});
    const auto step = [&] {
      reducer.begin_step();
      reducer.mark_ready(0, own.tensor());
      reducer.finish_step();
    };
    {
      const auto no_sync = reducer.no_sync();
      step();
    }
    std::string said = own.get()[1] == static_cast<float>(rank) ? "as it was, " : "changed, ";
    own.set({3.0F, static_cast<float>(2 * rank)});
    step();
    said += text_of(own.get());
    reducer.zero_gradients();
    return said + ", " + text_of(read(reducer.gradient(0), rank));
  });
  expect_all_say(results, "as it was, 3 1, 0 0");
}

TEST_P(DeviceGradients, OfDifferentStepsAreNamedInDetail) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const DeviceModel model({2});
    GradientReducer reducer(model.parameters());
    set_debug_level(DebugLevel::detail);
    const auto begin = [&] { return thrown_by([&] { reducer.begin_step(); }); };
    if (rank == 1) return begin();
    const auto no_sync = reducer.no_sync();
    return begin();
  });
  expect_all_say(results,
                 "rank 0 begins step 1 without reduction (no_sync), rank 1 step 1; all ranks must "
                 "make the same steps");
}

TEST_P(DeviceGradients, OfAReducerThatIsGoneStayUntilTheirReductionHasEnded) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, GetParam());
    const DeviceModel model({1000, 1000});
    auto reducer = std::make_optional<GradientReducer>(model.parameters(), short_buckets);
    reducer->begin_step();
    reducer->mark_ready(1);
    if (rank == 0) reducer.reset();
    default_group().barrier();
    return std::string("in order");
  });
  expect_all_say(results, "in order");
}

INSTANTIATE_TEST_SUITE_P(WithBackend, DeviceGradients, testing::Values("nccl", "gloo", "cpu:gloo,cuda:nccl"),
                         name_of_backend);

TEST(DeviceGradientsOnNccl, StepsDoNotWaitForTheDevice) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, "nccl");
    const cudaStream_t mine = make_stream();
    const StreamGuard guard({mine}, device_of(rank));
    const DeviceModel model({4});
    GradientReducer reducer(model.parameters(), {.rebuild_buckets = false});
    default_group().barrier();
    Gate gate;
    gate.hold(mine);
    for (int number = 0; number < 2; ++number) {
      reducer.begin_step();
      const Floats* const value = model.values[0].get();
      require(cudaMemcpyAsync(reducer.gradient(0).data(), value->data(), 16, cudaMemcpyDefault, mine),
              "cudaMemcpyAsync");
      reducer.mark_ready(0);
      reducer.finish_step();
    }
    std::string said = std::to_string(reducer.statistics().steps) + " steps ended, ";
    gate.open();
    require(cudaStreamSynchronize(mine), "cudaStreamSynchronize");
    return said + std::to_string(steps_when_ended([&] { return reducer.statistics(); }, 2));
  });
  expect_all_say(results, "0 steps ended, 2");
}

TEST(DeviceGradientsErrors, RanksWithOtherDevicesAreNamed) {
  const auto results = run_ranks(2, [](int rank) {
    init_for(rank, "gloo");
    const DeviceModel model({2});
    std::vector<float> on_host(2);
    const Tensor value = rank == 0 ? Tensor::of(on_host) : model.values[0]->tensor();
    return thrown_by([&] { const GradientReducer reducer({{"", value}}); });
  });
  expect_all_say(results,
                 "the device of the parameters is cpu on rank 0 and cuda on rank 1; all ranks must "
                 "give the same options");
}

TEST(DeviceGradientsErrors, HooksThatConvertOnTheHostRejectThem) {
  const auto results = run_ranks(1, [](int rank) {
    init_for(rank, "gloo");
    const DeviceModel model({2});
    GradientReducer reducer(model.parameters(), {.comm_hook = fp16_compress_hook()});
    reducer.begin_step();
    return thrown_by([&] { reducer.mark_ready(0); });
  });
  expect_all_say(results,
                 "this hook converts gradients on the CPU, and these are on cuda:0: take those of "
                 "dlaunch/torch/comm_hooks.h, or a hook of yours");
}

}  // namespace
}  // namespace dlaunch::test
