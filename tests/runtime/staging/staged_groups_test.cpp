// Groups of gloo that get CUDA tensors: what they compute, and what they reject.

#include <dlaunch/debug.h>
#include <dlaunch/device_mesh.h>
#include <dlaunch/half.h>

#include <array>
#include <complex>
#include <numeric>
#include <vector>

#include "tests/runtime/cuda/device_streams.h"

namespace dlaunch::test {
namespace {

constexpr std::chrono::seconds limit(30);

void init_gloo(int rank) { init(rank, limit, "gloo"); }

MessageOptions tagged(std::uint32_t tag) { return {.tag = tag, .timeout = std::nullopt}; }

TEST(StagedGroups, TensorsOfBothDevicesTakeTurns) {
  const auto results = run_ranks(3, [](int rank) {
    init_gloo(rank);
    const Floats on_device({1.0F});
    std::vector<float> on_host = {2.0F};
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      on_device.set({1.0F});
      on_host = {2.0F};
      works.push_back(default_group().all_reduce(on_device.tensor(), ReduceOp::sum, async()));
      works.push_back(default_group().all_reduce(Tensor::of(on_host), ReduceOp::sum, async()));
      if (i % 3 == 0) barrier();
      for (const Work& work : works) work.synchronize();
      works.clear();
      if (on_host.front() != 6.0F || on_device.get().front() != 3.0F) return "round " + std::to_string(i);
    }
    CollectiveOptions of_device;
    of_device.device_ids = {device_of(rank)};
    barrier(of_device);
    return get_backend_config() + " " + text_of(on_device.get()) + " " + text_of(on_host);
  });
  expect_all_say(results, "cpu:gloo,cuda:gloo 3 6");
}

// Longer than a part: pieces are on the network while others are copied.
TEST(StagedGroups, LongTensorsAreCutInParts) {
  const auto results = run_ranks(3, [](int rank) {
    init_gloo(rank);
    constexpr std::size_t count = 5'000'011;
    std::vector<float> own(count);
    for (std::size_t i = 0; i < count; ++i)
      own[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(rank));
    const Floats values(own);
    const Work work = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    const Floats others(own);
    broadcast(others.tensor(), 1);
    work.wait();
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<float> sums = values.get();
    const std::vector<float> copies = others.get();
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<float>(i % 1000);
      if (sums[i] != 3 * number + 3 || copies[i] != number + 1) return "wrong at " + std::to_string(i);
    }
    const Floats to_one(own);
    reduce(to_one.tensor(), 2);
    const float last = to_one.get().back();
    const auto wanted = static_cast<float>((count - 1) % 1000);
    const float own_value = wanted + static_cast<float>(rank);
    return std::string(last == (rank == 2 ? 3 * wanted + 3 : own_value) ? "right" : "wrong");
  });
  expect_all_say(results, "right");
}

TEST(StagedGroups, PartsMayDifferInSizeOrBeEmpty) {
  const auto results = run_ranks(3, [](int rank) {
    init_gloo(rank);
    const Floats all(std::vector<float>(3));  // one value of rank 0, two of rank 1, none of rank 2
    const std::vector<Tensor> parts = {all.part(0, 1), all.part(1, 2), all.part(3, 0)};
    const Floats own(std::vector<float>(2, static_cast<float>(rank + 1)));
    all_gather(parts, own.part(0, parts[static_cast<std::size_t>(rank)].numel()));
    all_reduce(Floats(std::vector<float>()).tensor());
    return text_of(all.get());
  });
  expect_all_say(results, "1 2 2");
}

TEST(StagedGroups, EveryReductionOfTheCpuIsThere) {
  const auto results = run_ranks(2, [](int rank) {
    init_gloo(rank);
    const Floats average({static_cast<float>(2 * rank)});
    all_reduce(average.tensor(), ReduceOp::avg);
    const Floats scaled({4.0F});
    OperationOptions half;
    half.premul_factor = rank == 0 ? 0.5 : 0.25;
    default_group().all_reduce(scaled.tensor(), ReduceOp::premul_sum, half);
    const DeviceValues<BFloat16> brain({BFloat16::from(1.5F)});
    all_reduce(brain.tensor());
    const DeviceValues<std::complex<double>> complex({std::complex<double>(1.0, 2.0)});
    all_reduce(complex.tensor());
    const DeviceValues<std::int16_t> bits({static_cast<std::int16_t>(rank == 0 ? 5 : 6)});
    all_reduce(bits.tensor(), ReduceOp::bxor);
    const std::complex<double> sum = complex.get().front();
    return text_of(average.get()) + "|" + text_of(scaled.get()) + "|" +
           text_of(std::vector<float>{brain.get().front().to_float()}) + "|" +
           text_of(std::vector<double>{sum.real(), sum.imag()}) + "|" + text_of(bits.get());
  });
  expect_all_say(results, "1|3|3|2 4|3");
}

// The receiver's tensor may be on the CPU; tags and any source are those of gloo.
TEST(StagedGroups, MessagesHaveTagsAndSenders) {
  const auto results = run_ranks(3, [](int rank) {
    init_gloo(rank);
    const Floats values(std::vector<float>(1, static_cast<float>(12 * rank + 1)));
    if (rank == 0) {
      std::vector<float> on_host(1);
      const Floats on_device(std::vector<float>(1));
      const Work second = default_group().irecv(on_device.tensor(), 1, tagged(2));
      default_group().recv(Tensor::of(on_host), 1, tagged(1));
      second.synchronize();
      const int sender = default_group().recv(values.tensor(), any_source, tagged(3));
      return text_of(on_host) + " " + text_of(on_device.get()) + " " + text_of(values.get()) + " from " +
             std::to_string(sender);
    }
    if (rank == 1) {
      default_group().send(values.tensor(), 0, tagged(1));
      const Floats other({11.0F});
      default_group().send(other.tensor(), 0, tagged(2));
      return std::string("sent");
    }
    default_group().send(values.tensor(), 0, tagged(3));
    return std::string("sent");
  });
  EXPECT_EQ(results[0].said, "13 11 25 from 2");
  EXPECT_EQ(results[1].said, "sent");
  EXPECT_EQ(results[2].said, "sent");
}

// A collective whose stream is late keeps no message waiting.
TEST(StagedGroups, AMessageDoesNotWaitForACollective) {
  const auto results = run_ranks(2, [](int rank) {
    init_gloo(rank);
    Gate gate;
    const cudaStream_t slow = make_stream();
    const Floats values({1.0F});
    const Floats message({static_cast<float>(rank + 5)});
    Work sum;
    {
      const StreamGuard guard({slow}, device_of(rank));
      gate.hold(slow);
      sum = default_group().all_reduce(values.tensor(), ReduceOp::sum, async());
    }
    const Work sent = isend(message.tensor(), 1 - rank);
    const Floats received(std::vector<float>(1));
    recv(received.tensor(), 1 - rank);
    sent.wait();
    const bool has_waited = sum.has_ended();
    gate.open();
    sum.synchronize();
    return text_of(received.get()) + (has_waited ? " late " : " at once ") + text_of(values.get());
  });
  EXPECT_EQ(results[0].said, "6 at once 2");
  EXPECT_EQ(results[1].said, "5 at once 2");
}

TEST(StagedGroups, ANewGroupAndNamedDevicesWork) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank, limit, "cuda:gloo");
    const Floats values({1.0F});
    all_reduce(values.tensor());
    std::vector<float> on_host(1);
    const std::string refusal = thrown_by([&] { all_reduce(Tensor::of(on_host)); });
    NewGroupOptions options;
    options.backend = "cpu:gloo,cuda:gloo";
    const ProcessGroup both = new_group({0, 1}, options);
    both.all_reduce(values.tensor());
    both.all_reduce(Tensor::of(on_host));
    return get_backend_config() + " " + get_backend_config(both) + " " + text_of(values.get()) + " " +
           refusal;
  });
  expect_all_say(results, "cuda:gloo cpu:gloo,cuda:gloo 4 backend cuda:gloo does not work on device cpu");
}

TEST(StagedGroups, AMeshOfCudaHasGroupsOfIt) {
  const auto results = run_ranks(2, [](int rank) {
    require(cudaSetDevice(device_of(rank)), "cudaSetDevice");
    init_process_group({.backend = "gloo", .timeout = limit});
    const DeviceMesh mesh = init_device_mesh("cuda", {2}, {"dp"});
    const Floats values({static_cast<float>(rank + 1)});
    mesh.get_group("dp").all_reduce(values.tensor());
    return mesh.device_type() + " " + text_of(values.get());
  });
  expect_all_say(results, "cuda 3");
}

// Each rank names a device of its own.
TEST(StagedGroups, CallsOnDifferentDevicesAreTheSameCall) {
  const auto results = run_ranks(2, [](int rank) {
    set_debug_level(DebugLevel::detail);
    init_gloo(rank);
    const Floats values({1.0F});
    all_reduce(values.tensor());
    const Floats all(std::vector<float>(2));
    all_gather(all.cut(2), values.tensor());
    const std::string difference = thrown_by([&] { all_reduce(values.part(0, rank == 0 ? 1 : 0)); });
    return text_of(all.get()) + " " + difference;
  });
  for (const RankResult& result : results)
    EXPECT_TRUE(result.said.starts_with("2 2 the ranks call different operations: rank 0 calls all_reduce("))
        << result.said;
}

TEST(StagedGroups, WithoutCudaTheErrorSaysWhatIsMissingAndCpuTensorsWork) {
  SKIP_ON_GPUS("the double can be without a device");
  const auto results = run_ranks(2, [](int) {
    setenv("CUDA_DOUBLE_DEVICES", "0", 1);
    init_process_group({.backend = "gloo", .timeout = limit});
    float value = 1.0F;
    const Tensor on_device = Tensor::from(&value, {1}, {Device::Kind::cuda, 0});
    std::string said = thrown_by([&] { all_reduce(on_device); });
    all_reduce(Tensor::from(&value, {1}));
    return said + " " + text_of(std::vector<float>{value});
  });
  expect_all_say(results,
                 "CUDA tensors cannot be used: the NVIDIA driver does not work (nvidia-smi shows more) 2");
}

TEST(StagedGroups, ADeviceThatIsNotThereIsNamedBeforeAnythingStarts) {
  const auto results = run_ranks(2, [](int rank) {
    init_gloo(rank);
    const Floats values({1.0F});
    const Tensor nowhere = Tensor::from(values.data(), {1}, {Device::Kind::cuda, device_count()});
    const std::string said = thrown_by([&] { all_reduce(nowhere); });
    all_reduce(values.tensor());
    return said + " " + text_of(values.get());
  });
  const std::string count = std::to_string(device_count());
  expect_all_say(results, "there is no CUDA device " + count + ": this process sees " + count +
                              (device_count() == 1 ? " CUDA device 2" : " CUDA devices 2"));
}

}  // namespace
}  // namespace dlaunch::test
