// Each call on tensors of LibTorch, with values that show what went where; tensors of any strides, futures,
// versions.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "dlaunch/torch/distributed.h"
#include "tests/runtime/torch/on_ranks.h"

namespace dlaunch::torch {
namespace {

using test::error_of;
using test::on_ranks;

constexpr int ranks = 3;

at::Tensor row(std::initializer_list<float> values) { return ::torch::tensor(std::vector<float>(values)); }

// Three numbers by which rank and place are seen.
at::Tensor own(int rank) { return ::torch::arange(3, at::kFloat) + static_cast<float>(10 * (rank + 1)); }

CollectiveOptions in_background() {
  CollectiveOptions options;
  options.async_op = true;
  return options;
}

void expect_equal(const at::Tensor& actual, const at::Tensor& expected, int line) {
  EXPECT_TRUE(actual.equal(expected)) << "line " << line << ":\n" << actual << "\ninstead of\n" << expected;
}
#define EXPECT_TENSOR(actual, expected) expect_equal(actual, expected, __LINE__)

TEST(TorchCalls, Reductions) {
  on_ranks(ranks, [](int rank) {
    at::Tensor tensor = own(rank);
    EXPECT_TENSOR(all_reduce(tensor).result().front(), row({60, 63, 66}));
    EXPECT_TENSOR(tensor, row({60, 63, 66}));
    tensor = own(rank);
    reduce(tensor, 1, ReduceOp::max);
    if (rank == 1) EXPECT_TENSOR(tensor, row({30, 31, 32}));
    at::Tensor part = ::torch::zeros({1});
    reduce_scatter(part, Tensors(own(rank).chunk(3)));
    EXPECT_TENSOR(part, row({static_cast<float>(60 + 3 * rank)}));
    reduce_scatter_tensor(part, own(rank), ReduceOp::avg);
    EXPECT_TENSOR(part, row({static_cast<float>(20 + rank)}));
  });
}

TEST(TorchCalls, Gatherings) {
  on_ranks(ranks, [](int rank) {
    std::vector<at::Tensor> all(3);
    for (at::Tensor& tensor : all) tensor = ::torch::zeros({3});
    all_gather(all, own(rank));
    for (int r = 0; r < ranks; ++r) EXPECT_TENSOR(all[static_cast<std::size_t>(r)], own(r));
    at::Tensor joined = ::torch::zeros({3, 3});
    all_gather_into_tensor(joined, own(rank));
    EXPECT_TENSOR(joined, ::torch::stack({own(0), own(1), own(2)}));
    for (at::Tensor& tensor : all) tensor.zero_();
    gather(rank == 2 ? Tensors(all) : Tensors(), own(rank), 2);
    EXPECT_TENSOR(all[1], rank == 2 ? own(1) : ::torch::zeros({3}));
  });
}

TEST(TorchCalls, WhatOneRankGives) {
  on_ranks(ranks, [](int rank) {
    at::Tensor tensor = own(rank);
    broadcast(tensor, 2);
    EXPECT_TENSOR(tensor, own(2));
    scatter(tensor, rank == 1 ? Tensors({own(5), own(6), own(7)}) : Tensors(), 1);
    EXPECT_TENSOR(tensor, own(5 + rank));
  });
}

TEST(TorchCalls, ExchangesAmongAll) {
  on_ranks(ranks, [](int rank) {
    const auto place = [](int from, int to) { return row({static_cast<float>(10 * from + to)}); };
    std::vector<at::Tensor> from;
    std::vector<at::Tensor> to;
    for (int r = 0; r < ranks; ++r) {
      from.push_back(place(rank, r));
      to.push_back(::torch::zeros({1}));
    }
    all_to_all(to, from);
    for (int r = 0; r < ranks; ++r) EXPECT_TENSOR(to[static_cast<std::size_t>(r)], place(r, rank));
    at::Tensor joined = ::torch::zeros({3});
    all_to_all_single(joined, ::torch::cat(from));
    EXPECT_TENSOR(joined, ::torch::cat({place(0, rank), place(1, rank), place(2, rank)}));
  });
}

TEST(TorchCalls, SeveralTensorsInOne) {
  on_ranks(ranks, [](int rank) {
    std::vector<at::Tensor> tensors{own(rank), own(rank).reshape({3, 1})};
    all_reduce_coalesced(tensors, ReduceOp::min);
    EXPECT_TENSOR(tensors[1].flatten(), own(0));
    std::vector<at::Tensor> gathered{::torch::zeros({3, 3}), ::torch::zeros({9})};
    all_gather_into_tensor_coalesced(gathered, {own(rank), -own(rank)});
    EXPECT_TENSOR(gathered[1], -gathered[0].flatten());
    std::vector<at::Tensor> parts{::torch::zeros({1}), ::torch::zeros({1})};
    reduce_scatter_tensor_coalesced(parts, {own(rank), -own(rank)});
    EXPECT_TENSOR(parts[0], row({static_cast<float>(60 + 3 * rank)}));
    EXPECT_TENSOR(parts[1], -parts[0]);
  });
}

TEST(TorchCalls, Messages) {
  on_ranks(ranks, [](int rank) {
    const int next = (rank + 1) % ranks;
    const int before = (rank + 2) % ranks;
    at::Tensor got = ::torch::zeros({3});
    const TensorWork sent = isend(own(rank), next);  // the tensor lives as long as the message needs it
    EXPECT_EQ(recv(got, before), before);
    EXPECT_TENSOR(got, own(before));
    sent.wait();
    const TensorWork received = irecv(got.zero_(), before);
    send(own(rank + 1), next);
    EXPECT_TENSOR(received.result().front(), own(before + 1));
    const std::vector<P2POp> ops{{dlaunch::P2POp::Kind::isend, own(rank), next, 7},
                                 {dlaunch::P2POp::Kind::irecv, got, before, 7}};
    for (const TensorWork& work : batch_isend_irecv(ops)) work.wait();
    EXPECT_TENSOR(got, own(before));
  });
}

// In rows of three, of which only the first two columns count; transposed; conjugated; negative.
TEST(TorchCalls, TensorsOfAnyStrides) {
  on_ranks(ranks, [](int rank) {
    at::Tensor wide = ::torch::full({2, 3}, static_cast<float>(rank));
    all_reduce(wide.narrow(1, 0, 2));
    EXPECT_TENSOR(
        wide, ::torch::tensor({{3.F, 3.F, static_cast<float>(rank)}, {3.F, 3.F, static_cast<float>(rank)}}));
    at::Tensor gathered = ::torch::zeros({2, 9}).t();  // 9 rows
    const at::Tensor square = own(rank).unsqueeze(1).expand({3, 2});
    all_gather_into_tensor(gathered, square, in_background()).wait();
    EXPECT_TENSOR(gathered.select(1, 1), ::torch::cat({own(0), own(1), own(2)}));
    at::Tensor complex = ::torch::complex(row({1}), row({static_cast<float>(rank)}));
    all_reduce(complex.conj());
    EXPECT_TENSOR(at::real(complex), row({3}));
    EXPECT_TENSOR(at::imag(complex), row({3}));
    at::Tensor channels = ::torch::rand({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor before = channels.clone();
    broadcast(channels, 0);
    all_reduce(channels, ReduceOp::max);
    if (rank == 0) EXPECT_TENSOR(channels, before);
  });
}

TEST(TorchCalls, AsynchronousOnesYieldTheirTensors) {
  on_ranks(ranks, [](int rank) {
    const at::Tensor tensor = own(rank).reshape({3, 1}).expand({3, 2}).clone().t();
    const TensorWork work = all_reduce(tensor, ReduceOp::sum, in_background());
    const Future<double> sum = work.get_future().then(
        [](const Future<std::vector<at::Tensor>>& done) { return done.wait().front().sum().item<double>(); });
    EXPECT_EQ(sum.wait(), 2 * (60 + 63 + 66));
    EXPECT_EQ(work.result().front().data_ptr(), tensor.data_ptr());
    EXPECT_TENSOR(tensor[1], row({60, 63, 66}));
    EXPECT_TRUE(TensorWork().result().empty());
  });
}

TEST(TorchCalls, AnOperationHoldsItsTensors) {
  on_ranks(2, [](int rank) {
    TensorWork work;
    {
      const at::Tensor dropped = ::torch::full({1 << 16}, static_cast<float>(rank + 1));
      work = all_reduce(dropped, ReduceOp::sum, in_background());
    }
    (void)::torch::full({1 << 16}, -5.F);  // takes the memory if it is free
    EXPECT_EQ(work.result().front().min().item<float>(), 3);
    EXPECT_EQ(work.result().front().max().item<float>(), 3);
  });
}

// What backward() has saved must not be what a collective has written.
TEST(TorchCalls, BackwardNoticesThatATensorWasWritten) {
  on_ranks(2, [](int) {
    const at::Tensor weight = ::torch::ones({2}, at::requires_grad());
    at::Tensor input = ::torch::ones({2});
    const at::Tensor product = (weight * input).sum();
    all_reduce(input);
    EXPECT_THROW(product.backward(), c10::Error);
    at::Tensor read = ::torch::ones({2});
    const at::Tensor other = (weight * read).sum();
    std::vector<at::Tensor> all{::torch::zeros({2}), ::torch::zeros({2})};
    all_gather(all, read);
    EXPECT_NO_THROW(other.backward());
    EXPECT_FALSE(all_reduce(weight).result().front().grad_fn());  // not recorded
  });
}

TEST(TorchCalls, ErrorsNameTheCall) {
  on_ranks(2, [](int) {
    EXPECT_EQ(error_of([] { all_reduce(at::Tensor()); }), "all_reduce: a tensor is undefined");
    EXPECT_EQ(error_of([] { broadcast(::torch::eye(2).to_sparse(), 0); }),
              "broadcast: a tensor of Float [2, 2] is sparse, or has another layout that is not strided");
    at::Tensor inference;
    {
      const c10::InferenceMode mode;
      inference = ::torch::ones({2});
      all_reduce(inference);
      EXPECT_TENSOR(inference, row({2, 2}));
    }
    EXPECT_EQ(error_of([&] { all_reduce(inference); }),
              "all_reduce: a tensor that was made in inference mode is written outside of it");
  });
}

TEST(TorchCalls, ARankThatIsNoMemberKeepsItsTensors) {
  on_ranks(3, [](int rank) {
    const ProcessGroup group = new_group({0, 1});
    CollectiveOptions in_group;
    in_group.group = group;
    at::Tensor wide = ::torch::full({2, 2}, 1.F);
    all_reduce(wide.t().select(0, 0), ReduceOp::sum, in_group);
    EXPECT_EQ(wide.sum().item<float>(), rank == 2 ? 4 : 6);
  });
}

}  // namespace
}  // namespace dlaunch::torch
