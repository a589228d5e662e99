// ProcessGroup over threads and over backends that misbehave: arguments, order, the one end state.

#include "dlaunch/process_group.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "dlaunch/collective_backend.h"
#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "runtime/group/aliasing.h"
#include "runtime/group/group_impl.h"
#include "runtime/group/when_all.h"
#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::expect_success;
using test::in_groups;

ProcessGroup make_cgroup(int rank, int size, std::shared_ptr<Backend> backend) {
  return GroupImpl::handle(test::make_impl(rank, size, std::move(backend)));
}

TEST(Aliasing, IsSeenWhereSomethingIsWritten) {
  std::vector<std::uint8_t> bytes(16);
  const auto part = [&](std::size_t begin, std::int64_t count) {
    return Tensor::from(bytes.data() + begin, {count});
  };
  using Parts = std::vector<Tensor>;
  EXPECT_FALSE(aliases({}, {}));
  EXPECT_FALSE(aliases(Parts{part(8, 4), part(0, 4), part(4, 4)}, Parts{part(12, 4), part(12, 2)}));
  EXPECT_TRUE(aliases(Parts{part(8, 4), part(0, 9)}, {}));
  EXPECT_TRUE(aliases(Parts{part(0, 4), part(8, 4)}, Parts{part(12, 4), part(2, 8)}));
  EXPECT_TRUE(aliases(Parts{part(4, 2)}, Parts{part(0, 16)}));
  EXPECT_TRUE(aliases(Parts{part(0, 16)}, Parts{part(4, 2)}));
  EXPECT_FALSE(aliases(Parts{part(0, 4), part(2, 0)}, Parts{part(2, 0), part(4, 0)}));
}

// Their results would depend on which message comes first.
TEST(Group, SharedMemoryIsRefused) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    std::vector<int> values(4);
    const auto at = [&](std::size_t begin, std::int64_t count) {
      return Tensor::from(values.data() + begin, {count});
    };
    const auto refused = [](const auto& call) {
      return test::contains(error_of(call), ": an output shares memory with another one or with an input");
    };
    const std::vector<Tensor> both = {at(0, 2), at(2, 2)};
    const std::vector<Tensor> entangled = {at(0, 2), at(1, 2)};
    std::vector<int> more(4);
    const std::vector<Tensor> elsewhere = {Tensor::from(more.data(), {2}),
                                           Tensor::from(more.data() + 2, {2})};
    EXPECT_TRUE(refused([&] { group.all_gather(entangled, elsewhere[0]); }));
    EXPECT_TRUE(refused([&] { group.all_gather(both, at(1, 2)); }));
    EXPECT_TRUE(refused([&] { group.all_gather_into_tensor(at(0, 4), at(1, 2)); }));
    EXPECT_TRUE(refused([&] { group.all_to_all(both, both); }));
    EXPECT_TRUE(refused([&] { group.all_to_all(entangled, elsewhere); }));
    EXPECT_TRUE(refused([&] { group.all_to_all_single(at(0, 4), at(0, 4), {}, {}); }));
    // In its own place, and from one place to all.
    group.all_gather_into_tensor(at(0, 4), both[static_cast<std::size_t>(group.rank())]);
    group.all_to_all(both, std::vector<Tensor>{elsewhere[0], elsewhere[0]});
  }));
}

TEST(Group, DescribesItself) {
  expect_success(in_groups(3, [](const ProcessGroup& group) {
    EXPECT_EQ(group.size(), 3);
    EXPECT_EQ(group.name(), "test");
    EXPECT_EQ(group.backend(), "threads");
    EXPECT_EQ(group.timeout(), std::chrono::seconds(60));
  }));
  EXPECT_EQ(error_of([] { (void)ProcessGroup().rank(); }), "empty ProcessGroup handle: it names no group");
}

TEST(Group, WrongArgumentsAreRefusedAndDoNotCount) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    const std::string here = "rank " + std::to_string(group.rank());
    std::vector<float> values(4, 1.0F);
    const std::vector<float> constant(4);
    std::vector<double> wide(4);
    const Tensor tensor = Tensor::of(values);
    // Only on one rank: the other must not notice.
    if (group.rank() == 1) {
      EXPECT_EQ(error_of([&] { group.all_reduce(Tensor::of(constant)); }),
                here + ", all_reduce of group test: the tensor to write to is a view of const memory");
      EXPECT_EQ(error_of([&] { group.all_reduce(tensor, ReduceOp::bxor); }),
                here +
                    ", all_reduce of group test: bxor of float32 is not possible: bitwise operations need "
                    "integers");
      EXPECT_EQ(error_of([&] { group.broadcast(tensor, 2); }),
                here + ", broadcast of group test: src 2 is out of range for a group of 2 ranks");
      EXPECT_EQ(error_of([&] { group.broadcast(Tensor::of(constant), 0); }),
                here + ", broadcast of group test: the tensor to write to is a view of const memory");
      const std::vector<Tensor> one = {tensor};
      EXPECT_EQ(error_of([&] { group.all_gather(one, tensor); }),
                here + ", all_gather of group test: 1 outputs for 2 ranks");
      const std::vector<Tensor> mixed = {tensor, Tensor::of(wide)};
      EXPECT_EQ(
          error_of([&] { group.all_gather(mixed, tensor); }),
          here +
              ", all_gather of group test: output and input differ in dtype or device: float64[4] on cpu "
              "and float32[4] on cpu");
      EXPECT_EQ(error_of([&] { group.all_gather_into_tensor(tensor, tensor); }),
                here +
                    ", all_gather_into_tensor of group test: the output has 4 elements; 2 ranks with 4 each "
                    "need 8");
      OperationOptions options;
      options.timeout = std::chrono::milliseconds(0);
      EXPECT_EQ(error_of([&] { group.barrier(options); }),
                here + ", barrier of group test: the timeout must be longer than 0 ms");
      const Tensor elsewhere = Tensor::from(values.data(), {4}, {Device::Kind::cuda, 1});
      EXPECT_EQ(error_of([&] { group.all_reduce(elsewhere); }),
                here + ", all_reduce of group test: backend threads does not work on device cuda:1");
    }
    group.all_reduce(tensor);
    EXPECT_EQ(values, std::vector<float>(4, 2.0F));
    group.barrier();
  }));
}

TEST(Group, ASourceMayBeConst) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    const std::vector<int> constant = {1, 2, 3};
    std::vector<int> values(3);
    group.broadcast(group.rank() == 1 ? Tensor::of(constant) : Tensor::of(values), 1);
    if (group.rank() == 0) {
      EXPECT_EQ(values, constant);
    }
  }));
}

TEST(Group, AsynchronousOperationsRunInOrder) {
  expect_success(in_groups(3, [](const ProcessGroup& group) {
    OperationOptions async;
    async.async_op = true;
    std::vector<int> value = {group.rank()};
    std::vector<int> all(3);
    std::vector<Work> works;
    for (int i = 0; i < 30; ++i) {
      works.push_back(
          group.broadcast(Tensor::of(value), i % 3, async));  // each works on the result of the last
      works.push_back(group.all_reduce(Tensor::of(value), ReduceOp::max, async));
    }
    group.all_gather_into_tensor(Tensor::of(all), Tensor::of(value));  // synchronous: after all of them
    for (const Work& work : works) EXPECT_TRUE(work.is_success());
    EXPECT_EQ(all, std::vector<int>(3, 0));
  }));
}

template <class F>
DistNetworkError network_error_of(const F& f) {
  try {
    f();
  } catch (const DistNetworkError& e) {
    return e;
  }
  return DistNetworkError("no error");
}

TEST(Group, AfterAnErrorEveryCallRepeatsTheFirstCause) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    std::vector<float> values(group.rank() == 0 ? 10 : 20);
    const DistNetworkError first = network_error_of([&] { group.all_reduce(Tensor::of(values)); });
    EXPECT_EQ(first.context().operation, "all_reduce");
    EXPECT_EQ(first.context().sequence, 1U);
    EXPECT_EQ(first.context().peer, 1 - group.rank());
    for (int i = 0; i < 2; ++i) {
      const DistNetworkError again = network_error_of([&] { group.barrier(); });
      EXPECT_EQ(again.reason(), "the group is broken: " + first.reason());
      EXPECT_EQ(again.context().rank, group.rank());
      EXPECT_EQ(again.context().operation, "all_reduce");
      EXPECT_EQ(again.context().sequence, 1U);
      EXPECT_EQ(again.context().group, "test");
      EXPECT_EQ(again.context().peer, 1 - group.rank());
    }
  }));
}

TEST(Group, UnobservedErrorFailsTheNextCall) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    std::vector<float> values(group.rank() == 0 ? 10 : 20);
    OperationOptions async;
    async.async_op = true;
    std::promise<std::exception_ptr> failed;
    group.all_reduce(Tensor::of(values), ReduceOp::sum, async).then([&](const Work& work) {
      failed.set_value(work.exception());
    });
    const std::exception_ptr first = failed.get_future().get();
    EXPECT_EQ(error_of([&] { group.barrier(); }), message_of(with_words(first, "the group is broken: ")));
  }));
}

TEST(Group, AbortEndsAllRanks) {
  expect_success(in_groups(3, [](const ProcessGroup& group) {
    OperationOptions async;
    async.async_op = true;
    if (group.rank() == 0) {
      group.abort("enough");
      EXPECT_EQ(error_of([&] { group.barrier(); }),
                "rank 0, group test: the group is broken: aborted: enough");
      return;
    }
    const Work work = group.barrier(async);
    const std::string error = error_of([&] { work.wait(); });
    EXPECT_NE(error.find("rank 0 gave up: rank 0, group test: aborted: enough"), std::string::npos) << error;
  }));
}

TEST(Group, NoPeerIsToBlameForAnAbort) {
  expect_success(in_groups(2, [](const ProcessGroup& group) {
    if (group.rank() == 1) {
      EXPECT_NE(error_of([&] { group.barrier(); }), "no error");
      return;
    }
    std::vector<int> value(1);
    const Work work = group.irecv(Tensor::of(value), 1);
    group.abort("enough");
    const DistNetworkError error = network_error_of([&] { work.wait(); });
    EXPECT_STREQ(error.what(), "rank 0, recv #1 of group test: aborted: enough");
    EXPECT_EQ(error.context().peer, -1);
  }));
}

TEST(Group, DestroyCompletesWhatWasStarted) {
  expect_success(test::on_ranks(3, [](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    const auto impl = std::make_shared<GroupImpl>(
        GroupDescription{"test", rank, 3, std::chrono::seconds(60), "threads"},
        std::vector<GroupImpl::DeviceBackend>{
            {Device::Kind::cpu, std::make_shared<CollectiveBackend>(std::move(transport))}});
    OperationOptions async;
    async.async_op = true;
    std::vector<float> values(100000, 1.0F);
    const Work work = impl->all_reduce(Tensor::of(values), ReduceOp::sum, async);
    impl->destroy();
    EXPECT_TRUE(work.is_success());
    EXPECT_EQ(values, std::vector<float>(100000, 3.0F));
    EXPECT_EQ(error_of([&] { impl->barrier({}); }),
              "rank " + std::to_string(rank) + ", barrier of group test: the group was destroyed");
  }));
}

// A third-party backend: it offers only a barrier, which fails in its own way.
class OddBackend final : public Backend {
 public:
  Work barrier(const Operation&) override { throw std::runtime_error("odd"); }
  void abort(const std::string& reason) noexcept override { aborted = reason; }
  void shutdown() noexcept override { shut_down = true; }

  std::string aborted;
  bool shut_down = false;
};

// A third-party backend whose work runs on a stream.
class StreamBackend final : public Backend {
 public:
  Work all_reduce(const Tensor&, const Reduction&, const Operation& operation) override {
    sequences.push_back(operation.sequence);
    if (together > 0) ++started_together;
    return source.work();
  }
  Work all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                            const Operation& operation) override {
    return all_reduce(tensors.front(), reduction, operation);
  }
  std::string why_not(const CallSubject& call) override {
    return call.op == ReduceOp::bxor ? "it has no bxor" : "";
  }
  void begin_together() override { ++together; }
  void end_together() override { --together; }
  void enter(std::uint64_t sequence) noexcept override { entered = sequence; }
  void abort(const std::string& reason) noexcept override { aborted = reason; }
  void shutdown() noexcept override {}

  const WorkSource source{[this] { return ++ordered > 0; }};
  std::vector<std::uint64_t> sequences;
  int ordered = 0;
  int together = 0;
  int started_together = 0;
  std::uint64_t entered = 0;
  std::string aborted;
};

TEST(Group, ACallOnAStreamReturnsBeforeItHasEndedAndBreaksTheGroupLater) {
  const auto backend = std::make_shared<StreamBackend>();
  const ProcessGroup group = make_cgroup(0, 1, backend);
  std::vector<int> value(1);
  group.all_reduce(Tensor::of(value));
  EXPECT_EQ(backend->ordered, 1);
  OperationOptions async;
  async.async_op = true;
  const Work work = group.all_reduce(Tensor::of(value), ReduceOp::sum, async);
  EXPECT_TRUE(work.is_on_stream());
  work.wait();
  EXPECT_EQ(backend->ordered, 2);
  EXPECT_FALSE(work.has_ended());
  backend->source.fail(std::make_exception_ptr(DistNetworkError("the GPU is lost")));
  EXPECT_EQ(error_of([&] { work.wait(); }), "rank 0, all_reduce #2 of group test: the GPU is lost");
  EXPECT_EQ(error_of([&] { group.barrier(); }),
            "rank 0, all_reduce #1 of group test: the group is broken: the GPU is lost");
}

TEST(Group, WhatABackendCannotDoHasNoNumberAndLeavesTheGroupUsable) {
  const auto backend = std::make_shared<StreamBackend>();
  const ProcessGroup group = make_cgroup(0, 1, backend);
  std::vector<int> value(1);
  EXPECT_EQ(error_of([&] { group.all_reduce(Tensor::of(value), ReduceOp::bxor); }),
            "rank 0, all_reduce of group test: it has no bxor");
  group.all_reduce(Tensor::of(value));
  EXPECT_EQ(backend->sequences, std::vector<std::uint64_t>{1});
  backend->source.succeed();
}

class CompleteBackend final : public Backend {
 public:
  Work all_reduce(const Tensor&, const Reduction&, const Operation&) override { return {}; }
  std::string why_not(const CallSubject&) override { return "it was asked"; }
  bool takes_every_call() noexcept override { return true; }
  void abort(const std::string&) noexcept override {}
  void shutdown() noexcept override {}
};

TEST(Group, ABackendThatTakesEveryCallIsNotAsked) {
  const ProcessGroup group = make_cgroup(0, 1, std::make_shared<CompleteBackend>());
  std::vector<int> value(1);
  EXPECT_EQ(error_of([&] { group.all_reduce(Tensor::of(value), ReduceOp::bxor); }), "no error");
}

TEST(Group, CoalescedCallsAreStartedTogether) {
  const auto backend = std::make_shared<StreamBackend>();
  const ProcessGroup group = make_cgroup(0, 1, backend);
  std::vector<int> value(1);
  std::vector<float> other(1);
  Coalescing calls(group);
  calls.all_reduce(Tensor::of(value));
  calls.all_reduce(Tensor::of(other));
  const Work work = calls.end();
  EXPECT_EQ(backend->started_together, 2);
  EXPECT_EQ(backend->together, 0);
  backend->source.succeed();

  calls.all_reduce(Tensor::of(value));
  calls.all_gather_into_tensor(Tensor::of(other), Tensor::of(other));  // which it does not offer
  EXPECT_THROW((void)calls.end(), DistBackendError);
  EXPECT_EQ(backend->together, 0);
}

TEST(Group, MakesForeignExceptionsItsOwn) {
  const auto backend = std::make_shared<OddBackend>();
  const ProcessGroup group = make_cgroup(0, 1, backend);
  EXPECT_THROW(group.barrier(), DistBackendError);
  EXPECT_EQ(backend->aborted, "rank 0, barrier #1 of group test: odd");
  EXPECT_EQ(error_of([&] { group.barrier(); }), "rank 0, barrier #1 of group test: the group is broken: odd");
}

TEST(Group, WhatABackendLacksIsNamed) {
  const ProcessGroup group = make_cgroup(0, 1, std::make_shared<OddBackend>());
  std::vector<float> values(1);
  EXPECT_EQ(error_of([&] { group.all_reduce(Tensor::of(values)); }),
            "rank 0, all_reduce #1 of group test: the backend does not offer all_reduce");
}

// The test ends its operations.
class PatientBackend final : public Backend {
 public:
  Work barrier(const Operation&) override { return started.emplace_back().work(); }
  void abort(const std::string&) noexcept override {}
  void shutdown() noexcept override {}

  std::vector<WorkSource> started;
};

// What is logged when operations fail from the last to the first, and `use` is what the program does with
// them.
std::vector<std::string> warnings_after(const std::function<void(const std::vector<Work>&)>& use) {
  std::vector<std::string> warnings;
  set_log_handler([&](LogLevel, const std::string& message) { warnings.push_back(message); });
  {
    const auto backend = std::make_shared<PatientBackend>();
    const ProcessGroup group = make_cgroup(0, 2, backend);
    OperationOptions options;
    options.async_op = true;
    std::vector<Work> works;
    for (int i = 0; i < 3; ++i) works.push_back(group.barrier(options));
    while (!backend->started.empty()) {
      backend->started.back().fail(std::make_exception_ptr(DistNetworkError("lost", {.peer = 1})));
      backend->started.pop_back();
    }
    use(works);
  }
  set_log_handler(nullptr);
  return warnings;
}

TEST(Group, OneCauseIsOneWarning) {
  EXPECT_EQ(warnings_after([](const std::vector<Work>&) {}),
            std::vector<std::string>{"an operation failed and no call waited for it: rank 0, barrier #3 of "
                                     "group test, peer 1: lost"});
  EXPECT_EQ(warnings_after([](const std::vector<Work>& works) {
              EXPECT_NE(error_of([&] { works.back().wait(); }), "no error");
            }),
            std::vector<std::string>());
  EXPECT_EQ(warnings_after([](const std::vector<Work>& works) {
              EXPECT_NE(error_of([&] { when_all(works).wait(); }), "no error");
            }),
            std::vector<std::string>());
}

}  // namespace
}  // namespace dlaunch::internal
