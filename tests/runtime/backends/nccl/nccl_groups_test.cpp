// Groups of the backend nccl in several processes: what they compute, and what they reject.

#include <dlaunch/float8.h>
#include <dlaunch/half.h>
#include <limits>

#include <array>
#include <complex>
#include <cstdlib>
#include <vector>

#include "tests/runtime/cuda/device_ranks.h"

namespace dlaunch::test {
namespace {

TEST(NcclGroups, ReduceOnTheDevice) {
  const auto results = run_ranks(3, [](int rank) {
    init(rank);
    const Floats values({1.0F, static_cast<float>(rank)});
    all_reduce(values.tensor());
    return text_of(values.get());
  });
  expect_all_say(results, "3 3");
}

TEST(NcclGroups, AverageAndMultiplyFirst) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
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
    const std::complex<double> sum = complex.get().front();
    return text_of(average.get()) + "|" + text_of(scaled.get()) + "|" +
           text_of(std::vector<float>{brain.get().front().to_float()}) + "|" +
           text_of(std::vector<double>{sum.real(), sum.imag()});
  });
  expect_all_say(results, "1|3|3|2 4");
}

// Seen on an H200 with NCCL 2.32, for all types of floating point. Other backends let a NaN win.
TEST(NcclGroups, ANanLosesInMinAndMax) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> mine = rank == 0 ? std::vector{nan, 1.0F} : std::vector{2.0F, nan};
    const Floats smallest(mine);
    all_reduce(smallest.tensor(), ReduceOp::min);
    const Floats largest(mine);
    all_reduce(largest.tensor(), ReduceOp::max);
    return text_of(smallest.get()) + "|" + text_of(largest.get());
  });
  expect_all_say(results, "2 1|2 1");
}

template <class Float8>
std::string bytes_of(const DeviceValues<Float8>& values) {
  std::string text;
  for (const Float8 value : values.get()) {
    constexpr const char* digits = "0123456789abcdef";
    text += text.empty() ? "" : " ";
    text += {digits[value.bits / 16], digits[value.bits % 16]};
  }
  return text;
}

// The GPU, or the NCCL of this build, is too old.
bool cannot_reduce_float8(const RankResult& result) {
  const bool may_be_old =
      is_on_gpus() || result.said.starts_with("this libdlaunch was built with NCCL before");
  return may_be_old && result.said.find("float8") != std::string::npos;
}

// These results were seen on an H200 with NCCL 2.32.
TEST(NcclGroups, Float8IsReducedAndSaturates) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const DeviceValues<Float8E4M3> e4m3({{0x38}, {0x40}, {0x44}, {0x78}});
    const std::string rejected = thrown_by([&] { all_reduce(e4m3.tensor()); });
    if (!rejected.empty()) return rejected;
    const DeviceValues<Float8E5M2> e5m2({{0x38}, {0x40}, {0x44}, {0x78}});
    all_reduce(e5m2.tensor());
    const DeviceValues<Float8E4M3> product({{0x38}, {0x40}, {0x44}, {0x78}});
    all_reduce(product.tensor(), ReduceOp::product);
    const DeviceValues<Float8E5M2> highest({{0x00}, {static_cast<std::uint8_t>(rank == 0 ? 0xbc : 0x3c)}});
    all_reduce(highest.tensor(), ReduceOp::max);
    return bytes_of(e4m3) + "|" + bytes_of(e5m2) + "|" + bytes_of(product) + "|" + bytes_of(highest);
  });
  if (cannot_reduce_float8(results[0])) GTEST_SKIP() << results[0].said;
  expect_all_say(results, "40 48 4c 7e|3c 44 48 7b|38 48 51 7e|00 3c");
}

// 448, which is its largest value, and 1; factors of 0.5 and 0.25. An average multiplies first, too: 448
// stays.
TEST(NcclGroups, Float8IsMultipliedBeforeItIsAdded) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const DeviceValues<Float8E4M3> average({{0x7e}, {0x38}});
    const DeviceValues<Float8E4M3> scaled({{0x7e}, {0x38}});
    const DeviceValues<Float8E5M2> wide({{0x7b}, {0x3c}});
    const std::string rejected = thrown_by([&] { all_reduce(average.tensor(), ReduceOp::avg); });
    if (!rejected.empty()) return rejected;
    OperationOptions own;
    own.premul_factor = rank == 0 ? 0.5 : 0.25;
    default_group().all_reduce(scaled.tensor(), ReduceOp::premul_sum, own);
    default_group().all_reduce(wide.tensor(), ReduceOp::premul_sum, own);
    return bytes_of(average) + "|" + bytes_of(scaled) + "|" + bytes_of(wide);
  });
  if (cannot_reduce_float8(results[0])) GTEST_SKIP() << results[0].said;
  expect_all_say(results, "7e 38|7a 34|79 3a");
}

// Sums that are first would be infinite.
TEST(NcclGroups, AnAverageOfFloatingPointMultipliesFirst) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const DeviceValues<Float16> half({Float16::from(60'000.0F)});
    const Floats whole({3e38F});
    const DeviceValues<std::int32_t> integers({5 + 2 * rank});
    all_reduce(half.tensor(), ReduceOp::avg);
    all_reduce(whole.tensor(), ReduceOp::avg);
    all_reduce(integers.tensor(), ReduceOp::avg);
    const bool is_kept =
        half.get().front().to_float() == Float16::from(60'000.0F).to_float() && whole.get().front() == 3e38F;
    return std::string(is_kept ? "kept " : "lost ") + std::to_string(integers.get().front());
  });
  expect_all_say(results, "kept 6");
}

TEST(NcclGroups, Float8IsOnlyMovedOnOlderDevices) {
  SKIP_ON_GPUS("their capability cannot be chosen");
  const auto results = run_ranks(2, [](int rank) {
    setenv("CUDA_DOUBLE_CAPABILITY", "89", 1);
    init(rank);
    const DeviceValues<Float8E5M2> values({{0x38}, {static_cast<std::uint8_t>(rank)}});
    const std::string rejected = thrown_by([&] { all_reduce(values.tensor()); });
    broadcast(values.tensor(), 1);
    return bytes_of(values) + "|" + rejected;
  });
  for (const RankResult& result : results) {
    EXPECT_TRUE(result.said.starts_with("38 01|")) << result.said;
    EXPECT_TRUE(result.said.ends_with("use float16, or backend gloo") ||
                result.said.ends_with("use backend gloo"))
        << result.said;
  }
}

TEST(NcclGroups, PartsMayDifferInSizeOrBeEmpty) {
  const auto results = run_ranks(3, [](int rank) {
    init(rank);
    const Floats all(std::vector<float>(3));  // one value of rank 0, two of rank 1, none of rank 2
    const std::vector<Tensor> outputs = {all.part(0, 1), all.part(1, 2), all.part(3, 0)};
    const Floats own(std::vector<float>(2, static_cast<float>(rank + 1)));
    all_gather(outputs, own.part(0, outputs[static_cast<std::size_t>(rank)].numel()));
    const Floats sums(std::vector<float>(2));
    const std::vector<Tensor> inputs = {all.part(0, 1), all.part(1, 2), all.part(3, 0)};
    const std::size_t length = inputs[static_cast<std::size_t>(rank)].numel();
    reduce_scatter(sums.part(0, length), inputs);
    all_reduce(Floats(std::vector<float>()).tensor());
    std::vector<float> result = sums.get();
    result.resize(length);
    return text_of(all.get()) + "|" + text_of(result);
  });
  EXPECT_EQ(results[0].said, "1 2 2|3");
  EXPECT_EQ(results[1].said, "1 2 2|6 6");
  EXPECT_EQ(results[2].said, "1 2 2|");
}

TEST(NcclGroups, StartCallsTogether) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const Floats first({1.0F});
    const Floats second({static_cast<float>(rank)});
    const Floats both(std::vector<float>(2));
    Coalescing together(default_group());
    together.all_reduce(first.tensor());
    together.all_gather_into_tensor(both.tensor(), second.tensor());
    together.end().wait();
    // Each sends first, which would wait for ever by itself.
    const Floats received(std::vector<float>(1));
    const std::array<P2POp, 2> exchange = {
        P2POp{.kind = P2POp::Kind::isend, .tensor = second.tensor(), .peer = 1 - rank},
        P2POp{.kind = P2POp::Kind::irecv, .tensor = received.tensor(), .peer = 1 - rank}};
    for (const Work& work : batch_isend_irecv(exchange)) work.wait();
    return text_of(first.get()) + "|" + text_of(both.get()) + "|" + text_of(received.get());
  });
  EXPECT_EQ(results[0].said, "2|0 1|1");
  EXPECT_EQ(results[1].said, "2|0 1|0");
}

TEST(NcclGroups, WhatNcclCannotDoIsRejectedAndTheGroupStaysUsable) {
  NEEDS_DEVICES(6);
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const DeviceValues<int> values({1});
    all_reduce(values.tensor());
    PointToPointOptions tagged;
    tagged.tag = 3;
    std::string said = thrown_by([&] { all_reduce(values.tensor(), ReduceOp::band); });
    said += "|" + thrown_by([&] { (void)irecv(values.tensor()); });
    said += "|" + thrown_by([&] { send(values.tensor(), 1 - rank, tagged); });
    int on_host = 0;
    said += "|" + thrown_by([&] { all_reduce(Tensor::from(&on_host, {1})); });
    require(cudaSetDevice(5), "cudaSetDevice");
    const DeviceValues<int> elsewhere({1});
    said += "|" + thrown_by([&] { all_reduce(elsewhere.tensor()); });
    require(cudaSetDevice(rank), "cudaSetDevice");
    all_reduce(values.tensor());
    return said + "|" + text_of(values.get());
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(results[static_cast<std::size_t>(rank)].said,
              "NCCL has no bitwise band: reduce a tensor on the CPU with backend gloo"
              "|NCCL cannot receive from any rank: name the source"
              "|NCCL has no tags: messages between two ranks match in the order of their calls"
              "|backend nccl does not work on device cpu"
              "|the tensor is on cuda:5, and the group uses cuda:" +
                  std::to_string(rank) + " of this rank|4");
  }
}

TEST(NcclGroups, TwoRanksOnOneDeviceAreNamed) {
  const auto results = run_ranks(2, [](int) {
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    init(0);
    return thrown_by([] { all_reduce(Floats({1.0F}).tensor()); });
  });
  for (const RankResult& result : results) {
    EXPECT_TRUE(result.said.find("ranks 0 and 1 use one GPU") != std::string::npos ||
                result.said.find("rank 0") != std::string::npos)
        << result.said;
  }
  EXPECT_NE((results[0].said + results[1].said).find("ranks 0 and 1 use one GPU"), std::string::npos);
}

TEST(NcclGroups, TensorsChooseTheBackendByTheirDevice) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank, std::chrono::seconds(30), "cpu:gloo,cuda:nccl");
    const Floats on_device({1.0F});
    std::vector<float> on_host = {2.0F};
    all_reduce(on_device.tensor());
    all_reduce(Tensor::of(on_host));
    barrier();
    CollectiveOptions of_device;
    of_device.device_ids = {device_of(rank)};
    barrier(of_device);
    return get_backend_config() + " " + text_of(on_device.get()) + " " + text_of(on_host);
  });
  expect_all_say(results, "cpu:gloo,cuda:nccl 2 4");
}

TEST(NcclGroups, WithoutADeviceTheErrorSaysWhatIsMissing) {
  SKIP_ON_GPUS("the double can be without a device");
  const auto results = run_ranks(1, [](int) {
    setenv("CUDA_DOUBLE_DEVICES", "0", 1);
    const bool available = is_nccl_available();
    return std::string(available ? "available" : "missing") + "|" +
           thrown_by([] { init_process_group({.backend = "nccl"}); });
  });
  EXPECT_EQ(results[0].said,
            "missing|backend 'nccl' cannot be used: the NVIDIA driver does not work (nvidia-smi shows more)");
}

TEST(NcclGroups, ANamedDeviceIsConnectedAtOnce) {
  NEEDS_DEVICES(4);
  const auto results = run_ranks(2, [](int rank) {
    init_process_group({.backend = "nccl", .timeout = std::chrono::seconds(30), .device_id = rank + 2});
    require(cudaSetDevice(rank + 2), "cudaSetDevice");
    const Floats values({1.0F});
    all_reduce(values.tensor());
    const ProcessGroup half = new_group({0, 1});
    half.all_reduce(values.tensor());
    return text_of(values.get());
  });
  expect_all_say(results, "4");
}

}  // namespace
}  // namespace dlaunch::test
