// What goes wrong in data-parallel training is an error on all ranks that names parameter and rank.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "dlaunch/torch/data_parallel.h"
#include "tests/runtime/torch/expect_has.h"
#include "tests/runtime/torch/on_ranks.h"
#include "tests/runtime/torch/small_nets.h"

namespace dlaunch::torch {
namespace {

using small_nets::batch;
using small_nets::loss_of;
using small_nets::Net;
using test::error_of;
using test::on_ranks;

TEST(DataParallelErrors, OtherShapesNameRankAndParameter) {
  on_ranks(3, [](int rank) {
    Net net(rank == 2 ? 6 : 5);
    const std::string error = error_of([&] { const DistributedDataParallel model(net); });
    EXPECT_HAS(error,
               "parameter first.weight Float[5, 4] with strides [4, 1] on rank 0 is parameter first.weight "
               "Float[6, 4] with strides [4, 1] on rank 2");
    Net good;
    EXPECT_EQ(error_of([&] { const DistributedDataParallel model(good); }), "");  // the group is usable
  });
}

TEST(DataParallelErrors, MissingLayersNameThem) {
  on_ranks(2, [](int rank) {
    ::torch::nn::Sequential net(::torch::nn::Linear(4, 3));
    if (rank == 1) net->push_back(::torch::nn::BatchNorm1d(3));
    EXPECT_HAS(error_of([&] { const DistributedDataParallel model(net); }),
               "parameter 1.weight Float[3] with strides [1] on rank 1 is missing on rank 0");
  });
}

TEST(DataParallelErrors, AModuleThatCannotBeTrained) {
  on_ranks(2, [](int rank) {
    Net net;
    if (rank == 1)
      for (at::Tensor& parameter : net->parameters()) parameter.set_requires_grad(false);
    EXPECT_HAS(error_of([&] { const DistributedDataParallel model(net); }),
               "rank 1: no parameter of the module requires a gradient");
    EXPECT_HAS(error_of([&] { const DistributedDataParallel model(Net(), {.device_ids = {0}}); }),
               "rank 0: device_ids names cuda:0, and the module is on cpu");
    EXPECT_HAS(error_of([] { const DistributedDataParallel model(std::shared_ptr<small_nets::NetImpl>{}); }),
               "there is no module");
  });
}

TEST(DataParallelErrors, AParameterWithoutGradientIsNamedByTheNextForward) {
  std::vector<std::string> errors(2);
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    Net net;
    DistributedDataParallel model(net);
    std::string& error = errors[static_cast<std::size_t>(rank)];
    if (rank == 0) {
      loss_of(model(batch(0), false)).backward();
      error = error_of([&] { (void)model(batch(1)); });
    } else {
      error = error_of([&] { loss_of(model(batch(0))).backward(); });
    }
    throw DistError("done");
  }));
  EXPECT_HAS(errors[0],
             "2 of 6 parameters got no gradient from backward(): 2 (extra.weight), 3 (extra.bias); use all "
             "outputs of forward() in the loss, or set find_unused_parameters");
  EXPECT_HAS(errors[1], "2 (extra.weight), 3 (extra.bias)");
}

TEST(DataParallelErrors, AHookThatThrowsEndsBackwardOnAllRanks) {
  std::vector<std::string> errors(2);
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    Net net;
    DistributedDataParallel model(net);
    model.register_comm_hook([rank](const GradientBucket& bucket) {
      if (rank == 1) throw DistError("the hook failed");
      return allreduce_hook(bucket);
    });
    std::string& error = errors[static_cast<std::size_t>(rank)];
    error = error_of([&] { loss_of(model(batch(0))).backward(); });
    EXPECT_HAS(error_of([&] { loss_of(model(batch(0))).backward(); }), "the hook failed");
    throw DistError("done");
  }));
  for (const std::string& error : errors) EXPECT_HAS(error, "the hook failed");
}

TEST(DataParallelErrors, ASparseGradientIsRejected) {
  std::vector<std::string> errors(2);
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    ::torch::nn::Embedding net(::torch::nn::EmbeddingOptions(5, 2).sparse(true));
    DistributedDataParallel model(net);
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      model(::torch::tensor({1, 2})).sum().backward();
    });
    throw DistError("done");
  }));
  for (const std::string& error : errors)
    EXPECT_HAS(error, "parameter 0 (weight) has a sparse gradient; make its layer with sparse(false)");
}

TEST(DataParallelErrors, ARankThatLeavesEndsBackwardOfTheOthers) {
  std::string error;
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    Net net;
    DistributedDataParallel model(net);
    if (rank == 1) throw DistError("rank 1 has had enough");
    error = error_of([&] { loss_of(model(batch(0))).backward(); });
  }));
  EXPECT_HAS(error, "rank 1 has had enough");
}

}  // namespace
}  // namespace dlaunch::torch
