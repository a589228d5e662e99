// Known problems of Gloo, each as a test: sizes that do not match, waits that end too early or never, calls
// that take each other's messages.

#include <dlaunch/debug.h>
#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <complex>
#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/gloo/operation_options.h"
#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::any_source;
using dlaunch::ReduceOp;
using dlaunch::Tensor;
using dlaunch::Work;
using dlaunch::test::async;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::expect_all_say;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::RankResult;
using dlaunch::test::run_processes;
using dlaunch::test::Shared;
using dlaunch::test::tagged;
using std::chrono::milliseconds;

// Gloo ends the receiving process, or silently leaves old data behind.
TEST(SizeMismatch, IsAnErrorOfTheReceiver) {
  for (const std::size_t sent : {10U, 1000U, 100000U}) {
    for (const std::size_t expected : {11U, 999U, 50000U}) {
      const auto results = run_processes(2, [=](int rank) -> std::string {
        dlaunch::init_process_group();
        std::vector<float> values(rank == 0 ? sent : expected);
        const std::string error = error_of([&] {
          if (rank == 0) {
            dlaunch::send(Tensor::of(values), 1);
            dlaunch::barrier();
          } else {
            dlaunch::recv(Tensor::of(values), 0);
          }
        });
        dlaunch::destroy_process_group();
        return error;
      });
      const std::string how = "it sends " + std::to_string(sent) +
                              " x float32 with tag 0, this rank receives " + std::to_string(expected) +
                              " x float32";
      for (const RankResult& result : results) {
        EXPECT_EQ(result.status, 0);
        EXPECT_TRUE(contains(result.said, how)) << result.said;
      }
    }
  }
}

// A wait of Gloo that ends too early closes the connections between all ranks.
TEST(WaitTimeout, LeavesTheOperationAndTheGroupUsable) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<int> value(1);
    const auto meet = [](std::optional<milliseconds> timeout) {
      return error_of([&] { dlaunch::monitored_barrier(timeout); });
    };
    const std::string missing = "failed to pass monitoredBarrier in 10 ms";
    if (rank == 0) {
      const Work late = dlaunch::irecv(Tensor::of(value), 1);
      if (error_of([&] { late.wait(milliseconds(10)); }) == "no error") return "too early";
      if (const std::string error = meet(milliseconds(10)); !contains(error, missing)) return error;
      for (int peer = 1; peer < 3; ++peer) dlaunch::send(Tensor::of(value), peer);
      late.wait();
    } else {
      dlaunch::recv(Tensor::of(value), 0);
      if (rank == 1) dlaunch::send(Tensor::of(value), 0);
    }
    value = {1};
    dlaunch::all_reduce(Tensor::of(value));
    dlaunch::monitored_barrier();
    dlaunch::destroy_process_group();
    return value[0] == 3 ? "ok" : "wrong";
  });
  expect_all_say(results, "ok");
}

// Gloo treats both as "at once": 0, and the longest, which overflows.
TEST(Timeouts, ZeroIsRejectedAndTheLongestIsAccepted) {
  expect_all_say(
      run_processes(2,
                    [](int) -> std::string {
                      dlaunch::InitOptions init;
                      init.timeout = milliseconds(0);
                      if (!contains(error_of([&] { dlaunch::init_process_group(init); }), "longer than 0"))
                        return "init";
                      init.timeout = milliseconds::max();
                      dlaunch::init_process_group(init);
                      std::vector<int> one = {1};
                      dlaunch::CollectiveOptions options;
                      options.timeout = milliseconds(0);
                      const std::string refused =
                          error_of([&] { dlaunch::all_reduce(Tensor::of(one), ReduceOp::sum, options); });
                      if (!contains(refused, "longer than 0")) return refused;
                      options.timeout = milliseconds::max();
                      dlaunch::all_reduce(Tensor::of(one), ReduceOp::sum, options);
                      const dlaunch::ProcessGroup group = dlaunch::default_group();
                      if (!contains(error_of([&] { group.set_timeout(milliseconds(-1)); }), "longer than 0"))
                        return "set_timeout";
                      group.set_timeout(milliseconds::max());
                      if (group.timeout() != milliseconds::max()) return "timeout";
                      dlaunch::all_reduce(Tensor::of(one));
                      dlaunch::all_reduce(Tensor::of(one), ReduceOp::sum, async()).wait(milliseconds::max());
                      dlaunch::destroy_process_group();
                      return one[0] == 8 ? "ok" : "wrong";
                    }),
      "ok");
}

// Gloo's own collectives do not notice that a wait has ended, and add up missing data.
TEST(Abort, AbortedOperationHasNoResult) {
  const ProcessBarrier ready(2);
  expect_all_say(run_processes(2,
                               [&](int rank) -> std::string {
                                 dlaunch::init_process_group();
                                 ready.meet();
                                 std::vector<float> values(1000000, 1);
                                 std::string error;
                                 if (rank == 0) {
                                   const Work never =
                                       dlaunch::all_reduce(Tensor::of(values), ReduceOp::sum, async());
                                   dlaunch::abort_process_group("the disk is full");
                                   error = error_of([&] { never.wait(); });
                                   if (never.is_success()) return "success";
                                 } else {
                                   error = error_of([&] { dlaunch::recv(Tensor::of(values), 0); });
                                 }
                                 dlaunch::destroy_process_group();
                                 return contains(error, "the disk is full") ? "ok" : error;
                               }),
                 "ok");
}

// Gloo's returns without synchronizing.
TEST(EmptyTensors, StillSynchronizeTheRanks) {
  constexpr int rounds = 20;
  const Shared<std::atomic<int>> arrived(rounds);
  expect_all_say(run_processes(3,
                               [&](int) -> std::string {
                                 dlaunch::init_process_group();
                                 std::vector<float> nothing;
                                 for (int i = 0; i < rounds; ++i) {
                                   ++arrived.data()[i];
                                   dlaunch::all_reduce(Tensor::of(nothing));
                                   if (arrived.data()[i] != 3) return "alone";
                                 }
                                 dlaunch::destroy_process_group();
                                 return "ok";
                               }),
                 "ok");
}

// Gloo crashes.
TEST(SelfMessages, AreDelivered) {
  expect_all_say(run_processes(2,
                               [](int rank) -> std::string {
                                 dlaunch::init_process_group();
                                 for (const std::size_t count : {0U, 10U, 100000U}) {
                                   const std::vector<int> out(count, rank + 1);
                                   std::vector<int> in(count);
                                   const Work sent = dlaunch::isend(Tensor::of(out), rank);
                                   dlaunch::recv(Tensor::of(in), rank);
                                   sent.wait();
                                   if (in != out) return "wrong";
                                 }
                                 dlaunch::destroy_process_group();
                                 return "ok";
                               }),
                 "ok");
}

// PyTorch leaves partial sums there.
TEST(Reduce, LeavesTensorsOfOtherRanksUnchanged) {
  expect_all_say(run_processes(3,
                               [](int rank) -> std::string {
                                 dlaunch::init_process_group();
                                 for (const std::size_t count : {1U, 1000U, 300000U}) {
                                   for (int root = 0; root < 3; ++root) {
                                     std::vector<float> values(count, static_cast<float>(rank + 1));
                                     dlaunch::reduce(Tensor::of(values), root);
                                     const float wanted = rank == root ? 6.0F : static_cast<float>(rank + 1);
                                     if (values != std::vector<float>(count, wanted)) return "wrong";
                                   }
                                 }
                                 dlaunch::destroy_process_group();
                                 return "ok";
                               }),
                 "ok");
}

// A number taken by a call that only this rank rejects would put all later calls out of step.
TEST(RejectedCalls, TakeNoSequenceNumber) {
  expect_all_say(
      run_processes(2,
                    [](int rank) -> std::string {
                      dlaunch::init_process_group();
                      std::vector<int> values = {rank + 1};
                      std::vector<std::complex<float>> complex(1);
                      const std::vector<int> constant(1);
                      if (rank == 1) {
                        for (const std::string& refused :
                             {error_of([&] { dlaunch::broadcast(Tensor::of(values), 7); }),
                              error_of([&] { dlaunch::all_reduce(Tensor::of(complex), ReduceOp::max); }),
                              error_of([&] { dlaunch::all_reduce(Tensor::of(constant)); }), error_of([&] {
                                dlaunch::reduce_scatter_tensor(Tensor::of(values), Tensor::of(values));
                              }),
                              error_of([&] { dlaunch::recv(Tensor::of(values), 7); })}) {
                          if (refused == "no error") return refused;
                        }
                      }
                      dlaunch::all_reduce(Tensor::of(values));
                      dlaunch::broadcast(Tensor::of(values), 1);
                      dlaunch::barrier();
                      dlaunch::destroy_process_group();
                      return values[0] == 3 ? "ok" : "wrong";
                    }),
      "ok");
}

// With two workers per group, as PyTorch has, they race.
TEST(AsyncOperations, OnOneBufferRunInOrder) {
  expect_all_say(
      run_processes(3,
                    [](int) -> std::string {
                      dlaunch::init_process_group();
                      std::vector<std::int64_t> values(50000, 1);
                      std::vector<Work> works;
                      std::int64_t wanted = 1;
                      for (int i = 0; i < 10; ++i) {
                        works.push_back(dlaunch::all_reduce(Tensor::of(values), ReduceOp::sum, async()));
                        works.push_back(dlaunch::broadcast(Tensor::of(values), i % 3, async()));
                        wanted *= 3;
                      }
                      for (const Work& work : works) work.wait();
                      dlaunch::destroy_process_group();
                      return values == std::vector<std::int64_t>(50000, wanted) ? "ok" : "wrong";
                    }),
      "ok");
}

// PyTorch's monitored barrier relies on tags that a program may use, too.
TEST(TagIsolation, ProgramTagsNeverMatchInternalTags) {
  expect_all_say(
      run_processes(3,
                    [](int rank) -> std::string {
                      dlaunch::init_process_group();
                      const std::vector<std::uint32_t> tags = {
                          0, 1, 2, 3, 4, 100, 1U << 16, 0x7fffffffU, 0x80000000U, 0xffffffffU};
                      const int right = (rank + 1) % 3;
                      const int left = (rank + 2) % 3;
                      std::vector<std::vector<std::uint32_t>> out;
                      std::vector<Work> sent;
                      for (const std::uint32_t tag : tags)
                        out.push_back({tag, static_cast<std::uint32_t>(rank)});
                      for (std::size_t i = 0; i < tags.size(); ++i) {
                        // uint32 travels as bytes.
                        sent.push_back(
                            dlaunch::isend(Tensor::from(reinterpret_cast<std::uint8_t*>(out[i].data()), {8}),
                                           right, tagged(tags[i])));
                      }
                      dlaunch::set_debug_level(dlaunch::DebugLevel::detail);
                      dlaunch::monitored_barrier();
                      dlaunch::barrier();
                      dlaunch::set_debug_level(dlaunch::DebugLevel::off);
                      std::vector<int> one = {1};
                      dlaunch::all_reduce(Tensor::of(one));
                      for (std::size_t i = tags.size(); i-- > 0;) {
                        std::vector<std::uint32_t> in(2);
                        dlaunch::recv(Tensor::from(reinterpret_cast<std::uint8_t*>(in.data()), {8}),
                                      i % 2 == 0 ? left : any_source, tagged(tags[i]));
                        if (in != std::vector<std::uint32_t>{tags[i], static_cast<std::uint32_t>(left)})
                          return "wrong";
                      }
                      for (const Work& work : sent) work.wait();
                      dlaunch::destroy_process_group();
                      return one[0] == 3 ? "ok" : "wrong sum";
                    }),
      "ok");
}

// PyTorch's check leaves out reduction, root and splits.
std::string mismatch(int size, dlaunch::DebugLevel level, const std::function<void(int)>& call) {
  const auto results = run_processes(size, [&](int rank) -> std::string {
    dlaunch::set_debug_level(level);
    dlaunch::init_process_group();
    const std::string error = error_of([&] {
      call(rank);
      dlaunch::barrier();  // reports the error to ranks without a part in the difference
    });
    dlaunch::destroy_process_group();
    return error;
  });
  std::string all;
  for (const RankResult& result : results) {
    EXPECT_EQ(result.status, 0);
    EXPECT_NE(result.said, "no error");
    all += result.said + "\n";
  }
  return all;
}

TEST(FingerprintMismatch, ReductionRootAndSplitsAreCompared) {
  for (const auto level : {dlaunch::DebugLevel::off, dlaunch::DebugLevel::detail}) {
    const std::string reductions = mismatch(3, level, [](int rank) {
      std::vector<int> values(4);
      dlaunch::all_reduce(Tensor::of(values), rank == 1 ? ReduceOp::max : ReduceOp::sum);
    });
    EXPECT_TRUE(contains(reductions, "sum") && contains(reductions, "max")) << reductions;
  }
  const std::string roots = mismatch(2, dlaunch::DebugLevel::detail, [](int rank) {
    std::vector<int> values(4);
    dlaunch::broadcast(Tensor::of(values), rank);
  });
  EXPECT_TRUE(contains(roots, "rank 0 calls broadcast") && contains(roots, "rank 1 calls broadcast"))
      << roots;
  // Two sources send and expect nothing: the next call fails.
  for (const bool scatters : {false, true}) {
    const std::string sources = mismatch(2, dlaunch::DebugLevel::off, [&](int rank) {
      std::vector<int> values(2);
      if (scatters) {
        const std::vector<Tensor> parts = {Tensor::from(values.data(), {1}),
                                           Tensor::from(values.data() + 1, {1})};
        std::vector<int> own(1);
        dlaunch::scatter(Tensor::of(own), parts, rank);
      } else {
        dlaunch::broadcast(Tensor::of(values), rank);
      }
    });
    EXPECT_TRUE(contains(sources, scatters ? " calls scatter(" : " calls broadcast(")) << sources;
  }
  const std::string splits = mismatch(2, dlaunch::DebugLevel::off, [](int rank) {
    std::vector<int> in(6);
    std::vector<int> out(6);
    const std::vector<std::int64_t> own = {3, 3};
    const std::vector<std::int64_t> odd = {4, 2};
    dlaunch::all_to_all_single(Tensor::of(out), Tensor::of(in), own, own);
    dlaunch::all_to_all_single(Tensor::of(out), Tensor::of(in), rank == 0 ? own : odd, rank == 0 ? own : odd);
  });
  EXPECT_TRUE(contains(splits, "elements to this rank, which expects")) << splits;
}

// A second world, and second groups, in a store that still has the keys of the first.
TEST(StoreKeys, AreNeverReused) {
  expect_all_say(run_processes(4,
                               [](int rank) -> std::string {
                                 for (int i = 0; i < 3; ++i) {
                                   dlaunch::init_process_group();
                                   for (int k = 0; k < 2; ++k) {
                                     const dlaunch::ProcessGroup pair =
                                         dlaunch::new_group({rank / 2 * 2, rank / 2 * 2 + 1},
                                                            {.use_local_synchronization = true});
                                     std::vector<int> value = {rank};
                                     pair.all_reduce(Tensor::of(value));
                                     if (value[0] != rank / 2 * 4 + 1) return "wrong";
                                     pair.monitored_barrier();
                                     dlaunch::destroy_process_group(pair);
                                   }
                                   dlaunch::monitored_barrier();
                                   dlaunch::destroy_process_group();
                                 }
                                 return "ok";
                               }),
                 "ok");
}

TEST(AsyncErrors, UnobservedErrorFailsTheNextCall) {
  const ProcessBarrier ready(2);
  const auto results = run_processes(2, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    ready.meet();
    if (rank == 1) raise(SIGKILL);
    std::vector<float> values(100000);
    (void)dlaunch::all_reduce(Tensor::of(values), ReduceOp::sum, async());  // dropped
    return error_of([] { dlaunch::barrier(); });
  });
  EXPECT_TRUE(contains(results[0].said, "all_reduce #1") || contains(results[0].said, "barrier #2"))
      << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "died")) << results[0].said;
}

// More bytes than an int counts: a small piece of memory many times in a row, so that the test needs little.
TEST(ElementCounts, MayExceed32Bits) {
  constexpr std::size_t piece = std::size_t{16} << 20;
  constexpr std::size_t pieces = 129;
  expect_all_say(
      run_processes(
          2,
          [](int rank) -> std::string {
            const int file = memfd_create("piece", MFD_CLOEXEC);
            if (file < 0 || ftruncate(file, piece) != 0) return "no memory";
            void* const place =
                mmap(nullptr, piece * pieces, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            auto* const bytes = static_cast<std::uint8_t*>(place);
            for (std::size_t i = 0; i < pieces; ++i) {
              if (mmap(bytes + i * piece, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
                  MAP_FAILED)
                return "no mapping";
            }
            const auto value = [](std::size_t i) { return static_cast<std::uint8_t>(i * 7 + (i >> 12)); };
            for (std::size_t i = 0; rank == 0 && i < piece; ++i) bytes[i] = value(i);
            dlaunch::init_process_group();
            dlaunch::broadcast(Tensor::from(bytes, {static_cast<std::int64_t>(piece * pieces)}), 0);
            dlaunch::destroy_process_group();
            for (std::size_t i = 0; i < piece; ++i) {
              if (bytes[i] != value(i)) return "wrong";
            }
            return "ok";
          }),
      "ok");
}

}  // namespace
