// Gradients are the means over the ranks, whatever the options and the form of the loop.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <sstream>
#include <tuple>
#include <vector>

#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/tensor.h"
#include "tests/runtime/torch/on_ranks.h"
#include "tests/runtime/torch/small_nets.h"

namespace dlaunch::torch {
namespace {

using small_nets::batch;
using small_nets::differences;
using small_nets::loss_of;
using small_nets::Net;
using small_nets::part;
using small_nets::set_parameters;
using small_nets::whole_gradients;
using test::on_ranks;

// More than one bucket.
DataParallelOptions small(DataParallelOptions options = {}) {
  options.first_bucket_bytes = 16;
  return options;
}

class InEachForm : public testing::TestWithParam<std::tuple<bool, bool, bool, bool>> {
 protected:
  static DataParallelOptions options() {
    const auto& [views, unused, is_static, delayed] = GetParam();
    return small({.find_unused_parameters = unused,
                  .static_graph = is_static,
                  .gradient_as_bucket_view = views,
                  .delay_all_reduce = delayed});
  }
};

TEST_P(InEachForm, GradientsAreThoseOfTheWholeBatch) {
  on_ranks(3, [](int rank) {
    Net net;
    set_parameters(*net, rank);  // rank 0's count
    DistributedDataParallel model(net, options());
    for (int step = 0; step < 5; ++step) {
      net->zero_grad();
      loss_of(model(part(batch(step), rank, 3))).backward();
      EXPECT_EQ(differences(*net, whole_gradients(0, batch(step))), "") << "step " << step;
    }
    EXPECT_EQ(model.statistics().reducer.steps, 5U);
  });
}

TEST_P(InEachForm, StepsWithoutReductionAddUp) {
  on_ranks(2, [](int rank) {
    Net net;
    set_parameters(*net, 0);
    DistributedDataParallel model(net, options());
    for (int step = 0; step < 3; ++step) {
      for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().reset();
      {
        const auto guard = model.no_sync();
        for (int i = 0; i < 2; ++i) loss_of(model(part(batch(step + i), rank, 2))).backward();
      }
      loss_of(model(part(batch(step + 2), rank, 2))).backward();
      std::vector<at::Tensor> wanted = whole_gradients(0, batch(step));
      for (int i = 1; i < 3; ++i) {
        const std::vector<at::Tensor> more = whole_gradients(0, batch(step + i));
        for (std::size_t p = 0; p < wanted.size(); ++p) wanted[p] += more[p];
      }
      EXPECT_EQ(differences(*net, wanted), "") << "step " << step;
    }
    EXPECT_EQ(model.statistics().reducer.steps, 3U);
  });
}

std::string form_name(const testing::TestParamInfo<InEachForm::ParamType>& info) {
  const auto& [views, unused, is_static, delayed] = info.param;
  std::string name = "Plain";
  if (views) name += "Views";
  if (unused) name += "Unused";
  if (is_static) name += "Static";
  if (delayed) name += "Delayed";
  return name;
}
INSTANTIATE_TEST_SUITE_P(DataParallel, InEachForm,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Bool(), testing::Bool()),
                         form_name);

class WithViews : public testing::TestWithParam<bool> {};

// Rank 1 does not use the layer `extra`: rank 0's gradient, halved, is the mean.
TEST_P(WithViews, AParameterThatOneRankDoesNotUse) {
  on_ranks(2, [](int rank) {
    Net net;
    set_parameters(*net, 0);
    DistributedDataParallel model(
        net, small({.find_unused_parameters = true, .gradient_as_bucket_view = GetParam()}));
    for (int step = 0; step < 4; ++step) {
      net->zero_grad();
      loss_of(model(batch(step), rank == 0)).backward();
      std::vector<at::Tensor> wanted = whole_gradients(0, batch(step));
      const std::vector<at::Tensor> others = whole_gradients(0, batch(step), false);
      for (std::size_t p = 0; p < wanted.size(); ++p) {
        if (others[p].defined()) wanted[p] += others[p];
        wanted[p] /= 2;
      }
      EXPECT_EQ(differences(*net, wanted), "") << "step " << step;
      EXPECT_EQ(model.statistics().reducer.unused_parameters, rank == 0 ? 0U : 2U);
    }
  });
}

TEST_P(WithViews, AParameterThatNoRankUsesKeepsItsGradient) {
  on_ranks(2, [](int rank) {
    Net net;
    set_parameters(*net, 0);
    DistributedDataParallel model(
        net, small({.find_unused_parameters = true, .gradient_as_bucket_view = GetParam()}));
    const at::Tensor own = ::torch::full_like(net->extra->bias, static_cast<float>(rank));
    net->extra->bias.mutable_grad() = own.clone();
    loss_of(model(part(batch(1), rank, 2), false)).backward();
    EXPECT_EQ(differences(*net->first, {whole_gradients(0, batch(1), false)[0]}), "");
    EXPECT_TRUE(net->extra->bias.grad().equal(own));
    EXPECT_FALSE(net->extra->weight.grad().defined());
  });
}

INSTANTIATE_TEST_SUITE_P(DataParallel, WithViews, testing::Bool());

TEST(DataParallel, AGraphThatIsTheSameInEveryStepIsSearchedOnce) {
  on_ranks(2, [](int rank) {
    Net net;
    set_parameters(*net, 0);
    DistributedDataParallel model(net, small({.static_graph = true}));
    for (int step = 0; step < 4; ++step) {
      net->zero_grad();
      loss_of(model(part(batch(step), rank, 2), false)).backward();
      EXPECT_EQ(differences(*net->first, {whole_gradients(0, batch(step), false)[0]}), "") << step;
      EXPECT_EQ(model.statistics().reducer.unused_parameters, 2U);
    }
  });
}

// A loss in two parts, each with gradients of its own parameters.
TEST(DataParallel, TheLossMayComeInParts) {
  struct TwoImpl : ::torch::nn::Module {
    TwoImpl() {
      a = register_module("a", ::torch::nn::Linear(4, 1));
      b = register_module("b", ::torch::nn::Linear(4, 1));
    }
    std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& input) { return {a(input), b(input)}; }
    ::torch::nn::Linear a = nullptr;
    ::torch::nn::Linear b = nullptr;
  };
  on_ranks(2, [](int rank) {
    const auto net = std::make_shared<TwoImpl>();
    set_parameters(*net, 0);
    DistributedDataParallel model(net);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto [a, b] = model(part(batch(step), rank, 2));
      a.mean().backward();
      b.mean().backward();
      EXPECT_TRUE(net->b->weight.grad().allclose(batch(step).mean(0, true), 1e-4, 1e-6));
      EXPECT_TRUE(net->a->weight.grad().allclose(batch(step).mean(0, true), 1e-4, 1e-6));
    }
  });
}

// Evaluation in between, alone; a forward() whose result nobody uses; a second backward() through one graph.
TEST(DataParallel, LoopsOfOtherForms) {
  on_ranks(2, [](int rank) {
    Net net;
    set_parameters(*net, 0);
    DistributedDataParallel model(net, small({.find_unused_parameters = true}));
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      if (rank == 0) {
        const at::NoGradGuard no_grad;
        (void)model(batch(step));
      }
      if (rank == 1) (void)model(part(batch(9), rank, 2), false);
      const at::Tensor loss = loss_of(model(part(batch(step), rank, 2)));
      loss.backward({}, true);
      EXPECT_EQ(differences(*net, whole_gradients(0, batch(step))), "");
      const at::Tensor before = net->first->weight.grad().clone();
      loss.backward();  // adds this rank's gradient, as without other ranks
      EXPECT_FALSE(net->first->weight.grad().equal(before));
    }
  });
}

// Rank 1's forward() uses no parameter, so that it has no backward().
TEST(DataParallel, ARankMayUseNoParameter) {
  struct Maybe : ::torch::nn::Module {
    Maybe() { layer = register_module("layer", ::torch::nn::Linear(4, 2)); }
    at::Tensor forward(const at::Tensor& input, bool uses) { return uses ? layer(input) : input; }
    ::torch::nn::Linear layer = nullptr;
  };
  on_ranks(2, [](int rank) {
    const auto net = std::make_shared<Maybe>();
    DistributedDataParallel model(net, small({.find_unused_parameters = true}));
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const at::Tensor output = model(batch(step), rank == 0);
      if (rank == 0) output.sum().backward();
      EXPECT_EQ(net->layer->bias.grad()[0].item<float>(), 6) << "step " << step;
    }
  });
}

TEST(DataParallel, BuffersAreThoseOfRank0) {
  on_ranks(2, [](int rank) {
    ::torch::nn::Sequential net(::torch::nn::Linear(4, 3), ::torch::nn::BatchNorm1d(3),
                                ::torch::nn::Linear(3, 1));
    DistributedDataParallel model(net);
    EXPECT_EQ(model.statistics().buffers, 3U);
    const at::Tensor mean = net->named_buffers()["1.running_mean"];
    at::Tensor first;
    for (int step = 0; step < 3; ++step) {
      model(part(batch(step), rank, 2)).sum().backward();
      if (step == 0) first = mean.clone();
    }
    std::vector<float> differs{first.sum().item<float>()};
    all_reduce(Tensor::of(differs));
    EXPECT_NE(differs[0], 2 * first.sum().item<float>());  // each rank's after its own batch
    model(part(batch(7), 0, 2)).sum().backward();          // the same batch: the same means now
    at::Tensor both = mean.clone();
    dlaunch::all_reduce(view_of(both));
    EXPECT_TRUE(both.allclose(2 * mean));
    model.eval();
    if (rank == 0) (void)model(batch(1));  // takes no buffers
  });
}

TEST(DataParallel, FrozenSharedAndIgnoredParameters) {
  struct Tied : ::torch::nn::Module {
    Tied() {
      a = register_module("a", ::torch::nn::Linear(4, 4));
      register_module("b", a);
      own = register_parameter("own", ::torch::zeros({4}));
      a->bias.set_requires_grad(false);
    }
    at::Tensor forward(const at::Tensor& input) { return a(a(input)) + own; }
    ::torch::nn::Linear a = nullptr;
    at::Tensor own;
  };
  on_ranks(2, [](int rank) {
    const auto net = std::make_shared<Tied>();
    {
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : net->parameters()) parameter.fill_(rank + 1);
    }
    DataParallelOptions options;
    options.ignored = {"own"};
    DistributedDataParallel model(net, options);
    EXPECT_EQ(model.statistics().parameter_names, std::vector<std::string>{"a.weight"});
    EXPECT_EQ(net->a->bias[0].item<float>(), 1);                         // rank 0's
    EXPECT_EQ(net->own[0].item<float>(), static_cast<float>(rank + 1));  // its own
    model(part(batch(1), rank, 2)).mean().backward();
    std::vector<at::Tensor> all{::torch::zeros({4, 4}), ::torch::zeros({4, 4})};
    dlaunch::all_gather(std::vector{view_of(all[0]), view_of(all[1])}, view_of(net->a->weight.grad()));
    EXPECT_TRUE(all[0].equal(all[1]));
  });
}

TEST(DataParallel, AHookReducesInsteadOfTheModel) {
  on_ranks(2, [](int rank) {
    Net net;
    set_parameters(*net, 0);
    DistributedDataParallel model(net, small());
    std::size_t elements = 0;
    model.register_comm_hook([&elements](const GradientBucket& bucket) {
      at::Tensor values = tensor_of(bucket.buffer);
      elements += static_cast<std::size_t>(values.numel());
      values.div_(4);
      return bucket.group.all_reduce(bucket.buffer, ReduceOp::sum, {.async_op = true, .timeout = {}});
    });
    loss_of(model(part(batch(1), rank, 2))).backward();
    std::vector<at::Tensor> wanted = whole_gradients(0, batch(1));
    for (at::Tensor& gradient : wanted) gradient /= 2;
    EXPECT_EQ(differences(*net, wanted), "");
    EXPECT_EQ(elements, 67U);
    model.register_comm_hook(bf16_compress_hook());
    net->zero_grad();
    loss_of(model(part(batch(1), rank, 2))).backward();
    EXPECT_TRUE(net->last->weight.grad().allclose(whole_gradients(0, batch(1))[4], 1e-2, 1e-2));
  });
}

TEST(DataParallel, TrainsAndIsSavedWithoutAPrefix) {
  on_ranks(2, [](int rank) {
    Net net;
    set_parameters(*net, 0);
    Net alone;
    set_parameters(*alone, 0);
    DistributedDataParallel model(net, small({.gradient_as_bucket_view = true}));
    ::torch::optim::SGD optimizer(model.parameters(), ::torch::optim::SGDOptions(0.1).momentum(0.9));
    ::torch::optim::SGD reference(alone->parameters(), ::torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      loss_of(model(part(batch(step), rank, 2))).backward();
      optimizer.step();
      reference.zero_grad();
      loss_of(alone(batch(step))).backward();
      reference.step();
    }
    std::stringstream file;
    ::torch::save(net, file);
    Net loaded;
    ::torch::load(loaded, file);
    EXPECT_TRUE(loaded->last->weight.equal(net->last->weight));
    EXPECT_TRUE(loaded->last->weight.allclose(alone->last->weight, 1e-4, 1e-5));
    EXPECT_EQ(model->last->weight.data_ptr(), model.module()->last->weight.data_ptr());
  });
}

// In a process of its own, which has the log level from its environment.
TEST(DataParallel, TheLogShowsHowItWasMade) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("DLAUNCH_CPP_LOG_LEVEL", "INFO", 1);
  setenv("DLAUNCH_DISTRIBUTED_DEBUG", "INFO", 1);
  const auto make_model = [] {
    on_ranks(1, [](int) { const DistributedDataParallel model(Net(), {.broadcast_buffers = false}); });
    std::_Exit(0);
  };
  EXPECT_EXIT(make_model(), testing::ExitedWithCode(0),
              "num_parameter_tensors: 6(.|\n)*module_name: .*NetImpl(.|\n)*broadcast_buffers: 0(.|\n)*"
              "gradient_as_bucket_view: 0(.|\n)*torch_distributed_debug: ");
  unsetenv("DLAUNCH_CPP_LOG_LEVEL");
  unsetenv("DLAUNCH_DISTRIBUTED_DEBUG");
}

// What the program holds of a bucket stays valid: of a module whose layers work in another order than they
// are registered, so that the buckets change after the first step.
TEST(DataParallel, AGradientOutlivesItsBucket) {
  struct Backwards : ::torch::nn::Module {
    Backwards() {
      last = register_module("last", ::torch::nn::Linear(4, 1));
      first = register_module("first", ::torch::nn::Linear(4, 4));
    }
    at::Tensor forward(const at::Tensor& input) { return last(first(input)); }
    ::torch::nn::Linear last = nullptr;
    ::torch::nn::Linear first = nullptr;
  };
  on_ranks(2, [](int rank) {
    at::Tensor held;
    at::Tensor values;
    {
      const auto net = std::make_shared<Backwards>();
      DistributedDataParallel model(net, small({.gradient_as_bucket_view = true}));
      model(part(batch(0), rank, 2)).mean().backward();
      held = net->last->weight.grad();
      values = held.clone();
      model(part(batch(1), rank, 2)).mean().backward();
      EXPECT_TRUE(model.statistics().reducer.rebuilt);
      EXPECT_NE(net->last->weight.grad().data_ptr(), held.data_ptr());
    }
    EXPECT_TRUE(held.equal(values));
  });
}

}  // namespace
}  // namespace dlaunch::torch
