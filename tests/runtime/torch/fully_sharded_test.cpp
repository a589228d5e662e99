// Training with divided parameters makes the steps of DistributedDataParallel, with the N-th part of the
// memory.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dlaunch/torch/data_parallel.h"
#include "dlaunch/torch/fully_sharded.h"
#include "tests/runtime/torch/divided_nets.h"
#include "tests/runtime/torch/on_ranks.h"
#include "tests/runtime/torch/small_nets.h"

namespace dlaunch::torch {
namespace {

using divided_nets::all_units;
using divided_nets::Blocks;
using small_nets::batch;
using small_nets::loss_of;
using small_nets::part;
using small_nets::set_parameters;
using test::error_of;
using test::on_ranks;

class WithUnits : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(WithUnits, TrainsAsDistributedDataParallel) {
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [ranks](int rank) {
      Blocks whole;
      Blocks divided;
      set_parameters(*whole, 0.5, 0.3);
      set_parameters(*divided, rank == 0 ? 0.5 : 9, 0.3);  // rank 0's count
      DistributedDataParallel reference(whole);
      FullyShardedDataParallel model(divided, {.units = GetParam()});
      ::torch::optim::Adam of_reference(reference.parameters(), ::torch::optim::AdamOptions(0.01));
      ::torch::optim::Adam optimizer(model.shards(), ::torch::optim::AdamOptions(0.01));
      for (int step = 0; step < 10; ++step) {
        const at::Tensor input = part(batch(step), rank, ranks);
        of_reference.zero_grad();
        const at::Tensor wanted = loss_of(reference(input));
        wanted.backward();
        of_reference.step();
        optimizer.zero_grad();
        const at::Tensor loss = loss_of(model(input));
        loss.backward();
        optimizer.step();
        ASSERT_NEAR(loss.item<float>(), wanted.item<float>(), 1e-5) << "step " << step;
      }
      const auto full = model.full_parameters();
      for (const auto& item : whole->named_parameters()) {
        EXPECT_TRUE(item.value().allclose(divided->named_parameters()[item.key()], 1e-4, 1e-5)) << item.key();
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(FullySharded, WithUnits,
                         testing::Values(std::vector<std::string>{}, std::vector<std::string>{"middle"},
                                         all_units));

std::size_t state_bytes(::torch::optim::Adam& optimizer) {
  std::size_t bytes = 0;
  for (const auto& [key, state] : optimizer.state()) {
    const auto& adam = static_cast<const ::torch::optim::AdamParamState&>(*state);
    bytes += adam.exp_avg().nbytes() + adam.exp_avg_sq().nbytes();
  }
  return bytes;
}

TEST(FullySharded, MemoryFallsWithTheNumberOfRanks) {
  for (const unsigned ranks : {1, 2, 4}) {
    on_ranks(static_cast<int>(ranks), [ranks](int) {
      constexpr unsigned width = 16;
      struct Chain : ::torch::nn::Module {
        Chain() {
          for (int i = 0; i < 8; ++i)
            layers.push_back(
                register_module(std::to_string(i),
                                ::torch::nn::Linear(::torch::nn::LinearOptions(width, width).bias(false))));
        }
        at::Tensor forward(at::Tensor value) {
          for (auto& layer : layers) value = forward_unit(layer, value);
          return value;
        }
        std::vector<::torch::nn::Linear> layers;
      };
      constexpr unsigned layer = 4 * width * width;  // bytes
      FullyShardedDataParallel model(std::make_shared<Chain>(),
                                     {.units = {"0", "1", "2", "3", "4", "5", "6", "7"}});
      ::torch::optim::Adam optimizer(model.shards(), ::torch::optim::AdamOptions(0.01));
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        model(::torch::ones({1, width})).sum().backward();
        optimizer.step();
        const FullyShardedStatistics statistics = model.statistics();
        EXPECT_EQ(statistics.whole_bytes, 8 * layer);
        EXPECT_EQ(statistics.shard_bytes, 8 * layer / ranks);
        EXPECT_EQ(statistics.gradient_bytes, 8 * layer / ranks);
        EXPECT_EQ(state_bytes(optimizer), 2 * 8 * layer / ranks);
        EXPECT_EQ(statistics.gathered_bytes, 0U);
        // The unit that computes, the one that is gathered ahead, and the gradients of two.
        EXPECT_LE(statistics.peak_gathered_bytes, 4 * layer);
        for (const at::Tensor& parameter : model.module()->parameters()) EXPECT_EQ(parameter.nbytes(), 0U);
      }
    });
  }
}

TEST(FullySharded, TheNextUnitIsGatheredWhileOneComputes) {
  on_ranks(2, [](int rank) {
    Blocks net;
    FullyShardedDataParallel model(net, {.units = all_units});
    EXPECT_EQ(model.unit_names(), (std::vector<std::string>{"", "first", "middle", "last"}));
    std::vector<std::uint64_t> gathers{0};
    std::vector<std::uint64_t> prefetched{0};
    for (int step = 0; step < 3; ++step) {
      loss_of(model(part(batch(step), rank, 2), 1)).backward();
      gathers.push_back(model.statistics().gathers);
      prefetched.push_back(model.statistics().prefetched);
    }
    // The rest once, the three units in forward and in backward.
    EXPECT_EQ(gathers, (std::vector<std::uint64_t>{0, 7, 14, 21}));
    // Backward knows the order from forward: all but the last unit, whose turn is first. The rest is there.
    EXPECT_EQ(prefetched, (std::vector<std::uint64_t>{0, 2, 2 + 5, 2 + 5 + 5}));
    {
      const at::NoGradGuard no_grad;
      (void)model(batch(0), 1);
    }
    EXPECT_EQ(model.statistics().gathers, 25U);
    EXPECT_EQ(model.statistics().prefetched, 15U);
    EXPECT_EQ(model.statistics().gathered_bytes, 0U);
  });
}

// Two forward() before one backward(), two backward() before one step, evaluation in between, and again
// through one graph.
TEST(FullySharded, LoopsOfOtherForms) {
  on_ranks(2, [](int rank) {
    Blocks whole;
    Blocks divided;
    set_parameters(*whole, 0.5, 0.3);
    set_parameters(*divided, 0.5, 0.3);
    FullyShardedDataParallel model(divided, {.units = all_units});
    const auto input = [rank](int step) { return part(batch(step), rank, 2); };
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      whole->zero_grad();
      const at::Tensor one = loss_of(model(input(1)));
      {
        const at::NoGradGuard no_grad;
        EXPECT_TRUE(model(batch(2)).allclose(whole(batch(2)), 1e-4, 1e-5));
      }
      (one + loss_of(model(input(2)))).backward();
      const at::Tensor three = loss_of(model(input(3)));
      three.backward({}, true);
      three.backward();
      (loss_of(whole(batch(1))) + loss_of(whole(batch(2))) + 2 * loss_of(whole(batch(3)))).backward();
      EXPECT_EQ(model.statistics().steps, 3U * static_cast<unsigned>(step + 1));
      for (std::size_t i = 0; i < model.shards().size(); ++i) {
        const std::string name = model.unit_names()[i];
        std::vector<at::Tensor> wanted;
        for (const auto& item : whole->named_parameters())
          if (name.empty() ? item.key() == "scale" : item.key().starts_with(name))
            wanted.push_back(item.value().grad().flatten());
        EXPECT_TRUE(model.gather(i, model.shards()[i].grad()).allclose(::torch::cat(wanted), 1e-4, 1e-5))
            << name;
      }
    }
  });
}

// A parameter that is not used, and one that is frozen.
TEST(FullySharded, ParametersWithoutGradient) {
  on_ranks(2, [](int) {
    Blocks net;
    net->last->bias.set_requires_grad(false);
    struct Half : ::torch::nn::Module {
      explicit Half(Blocks blocks) : net(register_module("net", std::move(blocks))) {}
      at::Tensor forward(const at::Tensor& input) { return forward_unit(net->first, input); }
      Blocks net;
    };
    FullyShardedDataParallel model(std::make_shared<Half>(net), {.units = {"net.first", "net"}});
    EXPECT_EQ(model.unit_names(), (std::vector<std::string>{"net.first", "net"}));
    EXPECT_EQ(net->last->bias.numel(), 2);
    for (int step = 0; step < 2; ++step) {
      model(batch(step)).sum().backward();
      EXPECT_TRUE(model.shards()[0].grad().defined());
      EXPECT_FALSE(model.shards()[1].grad().defined());
    }
    FullyShardedDataParallel one(std::make_shared<Half>(Blocks()));
    for (int step = 1; step < 3; ++step) {
      one(batch(step)).sum().backward();
      const at::Tensor gradient = one.gather(0, one.shards()[0].grad());
      EXPECT_EQ(gradient.count_nonzero().item<std::int64_t>(), 40);  // of net.first, 4 x 8 and 8
      EXPECT_EQ(one.statistics().gathered_bytes, 0U);
    }
  });
}

// The whole module is saved by 2 ranks and loaded by 3, with the state of the optimizer.
TEST(FullySharded, ACheckpointIsThatOfAnyNumberOfRanks) {
  std::string file;
  std::vector<at::Tensor> averages;
  const auto train_on = [](auto& model, auto& optimizer, int step, int rank, int ranks) {
    optimizer.zero_grad();
    loss_of(model.forward(part(batch(step), rank, ranks))).backward();
    optimizer.step();
  };
  const ::torch::optim::SGDOptions options = ::torch::optim::SGDOptions(0.05).momentum(0.9);
  // The shards have different sizes.
  const auto momentum_of = [](::torch::optim::SGD& optimizer, std::size_t i) {
    for (auto& [key, value] : optimizer.state()) {
      auto& state = static_cast<::torch::optim::SGDParamState&>(*value);
      if (state.momentum_buffer().numel() == optimizer.param_groups()[0].params()[i].numel())
        return state.momentum_buffer();
    }
    throw DistError("no state");
  };
  on_ranks(2, [&](int rank) {
    Blocks net;
    set_parameters(*net, 0.5, 0.3);
    FullyShardedDataParallel model(net, {.units = all_units});
    ::torch::optim::SGD optimizer(model.shards(), options);
    for (int step = 0; step < 3; ++step) train_on(model, optimizer, step, rank, 2);
    std::vector<at::Tensor> whole;
    for (std::size_t i = 0; i < model.shards().size(); ++i)
      whole.push_back(model.gather(i, momentum_of(optimizer, i)));
    const auto full = model.full_parameters();
    if (rank != 0) return;
    averages = whole;
    std::ostringstream stream;
    ::torch::save(net, stream);
    file = stream.str();
  });
  on_ranks(3, [&](int rank) {
    Blocks net;
    std::istringstream stream(file);
    ::torch::load(net, stream);
    FullyShardedDataParallel model(net, {.units = all_units});
    ::torch::optim::SGD optimizer(model.shards(), options);
    for (const at::Tensor& shard : model.shards()) shard.mutable_grad() = ::torch::zeros_like(shard);
    optimizer.step();  // makes the state
    for (std::size_t i = 0; i < averages.size(); ++i)
      momentum_of(optimizer, i).copy_(model.part_of(i, averages[i]));
    for (int step = 3; step < 6; ++step) train_on(model, optimizer, step, rank, 3);
    Blocks alone;
    set_parameters(*alone, 0.5, 0.3);
    ::torch::optim::SGD reference(alone->parameters(), options);
    for (int step = 0; step < 6; ++step) train_on(*alone, reference, step, 0, 1);
    const auto full = model.full_parameters();
    for (const auto& item : alone->named_parameters())
      EXPECT_TRUE(item.value().allclose(net->named_parameters()[item.key()], 1e-4, 1e-5)) << item.key();
  });
}

TEST(FullySharded, FullParametersMayBeChanged) {
  on_ranks(2, [](int) {
    Blocks net;
    FullyShardedDataParallel model(net, {.units = all_units});
    {
      const auto full = model.full_parameters();
      set_parameters(*net, 0.5, 0.3);
      EXPECT_NE(error_of([&] { (void)model(batch(0)); }).find("there is a FullParameters"),
                std::string::npos);
      EXPECT_NE(error_of([&] { (void)model.full_parameters(); }).find("there is a FullParameters already"),
                std::string::npos);
      const at::NoGradGuard no_grad;
      (void)model(batch(0));
      EXPECT_EQ(net->first->weight.numel(), 32);
    }
    EXPECT_EQ(net->first->weight.numel(), 0);
    Blocks wanted;
    set_parameters(*wanted, 0.5, 0.3);
    EXPECT_TRUE(model(batch(1)).allclose(wanted(batch(1)), 1e-4, 1e-5));
  });
}

// A step of three batches, of which two are not reduced; the middle layer takes no part in the last one.
TEST(FullySharded, GradientsAddUpWithoutCommunication) {
  for (const bool has_units : {false, true}) {
    on_ranks(2, [has_units](int rank) {
      Blocks whole;
      Blocks divided;
      set_parameters(*whole, 0.5, 0.3);
      set_parameters(*divided, 0.5, 0.3);
      FullyShardedDataParallel model(divided, {.units = has_units ? all_units : std::vector<std::string>()});
      ::torch::optim::Adam reference(whole->parameters(), ::torch::optim::AdamOptions(0.01));
      ::torch::optim::Adam optimizer(model.shards(), ::torch::optim::AdamOptions(0.01));
      for (int step = 0; step < 4; ++step) {
        reference.zero_grad();
        optimizer.zero_grad();
        for (int i = 0; i < 3; ++i) {
          const at::Tensor input = batch(3 * step + i);
          loss_of(whole(input, i == 2 ? 0 : 2)).backward();
          const std::unique_ptr<NoSync> guard(i < 2 ? new NoSync(model.no_sync()) : nullptr);
          loss_of(model(part(input, rank, 2), i == 2 ? 0 : 2)).backward();
          for (const at::Tensor& shard : model.shards()) {
            const bool has_gradient = shard.grad().defined() && shard.grad().ne(0).any().item<bool>();
            EXPECT_EQ(has_gradient, i == 2);
          }
          EXPECT_EQ(model.statistics().gathered_bytes > 0, i < 2);
        }
        reference.step();
        optimizer.step();
      }
      {
        const auto guard = model.no_sync();
        loss_of(model(batch(1))).backward();
      }
      EXPECT_GT(model.statistics().gathered_bytes, 0U);
      model.zero_grad();
      EXPECT_EQ(model.statistics().gathered_bytes, 0U);
      const auto full = model.full_parameters();
      for (const auto& item : whole->named_parameters())
        EXPECT_TRUE(item.value().allclose(divided->named_parameters()[item.key()], 1e-4, 1e-5)) << item.key();
    });
  }
}

TEST(FullySharded, TheNormOfAllGradientsIsLimited) {
  on_ranks(2, [](int rank) {
    Blocks whole;
    Blocks divided;
    set_parameters(*whole, 0.5, 0.3);
    set_parameters(*divided, 0.5, 0.3);
    FullyShardedDataParallel model(divided, {.units = {"middle"}});
    loss_of(model(part(batch(1), rank, 2))).backward();
    loss_of(whole(batch(1))).backward();
    const double norm = ::torch::nn::utils::clip_grad_norm_(whole->parameters(), 0.01);
    EXPECT_NEAR(model.clip_grad_norm(0.01), norm, 1e-5);
    EXPECT_NEAR(model.clip_grad_norm(0.01), 0.01, 1e-5);
  });
}

TEST(FullySharded, AUnitWithoutAModelIsAModule) {
  Blocks net;
  EXPECT_EQ(net(batch(1)).numel(), 24);
}

}  // namespace
}  // namespace dlaunch::torch
