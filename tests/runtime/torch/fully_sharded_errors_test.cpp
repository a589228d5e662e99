// What goes wrong with divided parameters is an error on all ranks that names unit, parameter and rank.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/torch/fully_sharded.h"
#include "tests/runtime/torch/expect_has.h"
#include "tests/runtime/torch/on_ranks.h"
#include "tests/runtime/torch/small_nets.h"

// Outside of dlaunch, in which `torch` is dlaunch::torch.
namespace divided_nets {

using dlaunch::torch::forward_unit;

// Runs its two equal layers in either order.
struct TwoImpl : torch::nn::Module {
  TwoImpl() {
    a = register_module("a", torch::nn::Linear(4, 4));
    b = register_module("b", torch::nn::Linear(4, 4));
  }
  at::Tensor forward(const at::Tensor& input, bool b_first = false) {
    return b_first ? forward_unit(a, forward_unit(b, input)) : forward_unit(b, forward_unit(a, input));
  }
  torch::nn::Linear a = nullptr;
  torch::nn::Linear b = nullptr;
};
TORCH_MODULE(Two);

}  // namespace divided_nets

namespace dlaunch::torch {
namespace {

using divided_nets::Two;
using divided_nets::TwoImpl;
using small_nets::batch;
using small_nets::Net;
using test::error_of;
using test::on_ranks;

template <class Module>
std::string error_of_making(const Module& module, std::vector<std::string> units) {
  return error_of([&] { const FullyShardedDataParallel model(module, {.units = std::move(units)}); });
}

TEST(FullyShardedErrors, AModuleThatCannotBeDivided) {
  on_ranks(2, [](int rank) {
    EXPECT_HAS(error_of_making(std::shared_ptr<small_nets::NetImpl>{}, {}), "there is no module");
    EXPECT_HAS(
        error_of_making(Net(rank == 0 ? 5 : 6), {}),
        "FullyShardedDataParallel of group default: parameter first.weight Float[5, 4] with strides [4, 1] "
        "on rank 0 is parameter first.weight Float[6, 4] with strides [4, 1] on rank 1");
    EXPECT_HAS(error_of_making(Two(), {"a", rank == 0 ? "b" : "c"}), "rank 1: the unit \"c\" is no module");
    EXPECT_HAS(error_of_making(Two(), {"a.weight"}), "rank 0: the unit \"a.weight\" is no module");
    EXPECT_HAS(error_of_making(Two(), {rank == 0 ? "a" : "b"}), "rank 1 has other units than rank 0");
    Two mixed;
    mixed->b->to(at::kDouble);
    EXPECT_HAS(
        error_of_making(mixed, {}),
        "parameters of one unit have several dtypes: a.weight is Float, b.weight is Double; make one of "
        "their modules a unit");
    EXPECT_EQ(error_of_making(mixed, {"b"}), "");
    Two shared;
    shared->b->weight = shared->b->register_parameter("more", shared->a->weight);
    EXPECT_HAS(
        error_of_making(shared, {"a"}),
        "the parameter b.more is a.weight, too, in another unit; make a module that contains both a unit");
    Two frozen;
    for (at::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    EXPECT_HAS(error_of_making(frozen, {}), "no parameter of the module requires a gradient");
  });
}

// The error of each rank, after which each of them ends.
template <class Body>
std::vector<std::string> errors_of(int ranks, const Body& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  EXPECT_ANY_THROW(run_ranks_as_threads(ranks, [&](int rank) {
    init_process_group();
    Two net;
    FullyShardedDataParallel model(net, {.units = {"a", "b"}});
    errors[static_cast<std::size_t>(rank)] = error_of([&] { body(model, rank); });
    EXPECT_EQ(error_of([&] { (void)model(batch(1)); }).empty(), false);  // for good
    throw DistError("done");
  }));
  return errors;
}

TEST(FullyShardedErrors, RanksThatRunTheirUnitsInDifferentOrders) {
  const auto errors = errors_of(3, [](auto& model, int rank) { (void)model(batch(0), rank == 2); });
  for (const std::string& error : errors)
    EXPECT_HAS(error, "the ranks run their units in different orders: rank 0 a, b; rank 2 b, a");
}

TEST(FullyShardedErrors, ARankThatFailsEndsTheOthers) {
  const auto errors = errors_of(2, [](auto& model, int rank) {
    const at::Tensor loss = model(batch(0)).sum();
    if (rank == 1) {
      model->b->weight.register_hook([](const at::Tensor&) { throw DistError("rank 1 has had enough"); });
    }
    loss.backward();
    (void)model(batch(1));
  });
  EXPECT_HAS(errors[0], "the backward() before has thrown");
  EXPECT_HAS(errors[1], "rank 1 has had enough");
}

TEST(FullyShardedErrors, ASparseGradientIsRejected) {
  std::vector<std::string> errors(2);
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    ::torch::nn::Embedding net(::torch::nn::EmbeddingOptions(5, 2).sparse(true));
    FullyShardedDataParallel model(net);
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      model(::torch::tensor({1, 2})).sum().backward();
    });
    throw DistError("done");
  }));
  for (const std::string& error : errors)
    EXPECT_HAS(error, "parameter weight has a sparse gradient; make its layer with sparse(false)");
}

TEST(FullyShardedErrors, ARankThatLeavesEndsForwardOfTheOthers) {
  std::string error;
  EXPECT_ANY_THROW(run_ranks_as_threads(2, [&](int rank) {
    init_process_group();
    Two net;
    FullyShardedDataParallel model(net, {.units = {"a", "b"}});
    if (rank == 1) throw DistError("rank 1 has had enough");
    error = error_of([&] { model(batch(0)).sum().backward(); });
  }));
  EXPECT_HAS(error, "rank 1 has had enough");
}

TEST(FullyShardedErrors, CallsAtTheWrongTime) {
  on_ranks(1, [](int) {
    Two net;
    FullyShardedDataParallel model(net, {.units = {"a", "b"}});
    EXPECT_HAS(error_of([&] { (void)model.gather(2, model.shards()[0]); }),
               "there is no shard 2; there are 2");
    struct Outer : ::torch::nn::Module {
      explicit Outer(FullyShardedDataParallel<TwoImpl>& own) : inner(own) {
        register_parameter("weight", ::torch::ones({1}));
      }
      at::Tensor forward(const at::Tensor& input) { return inner(input); }
      FullyShardedDataParallel<TwoImpl>& inner;
    };
    FullyShardedDataParallel outer(std::make_shared<Outer>(model));
    EXPECT_HAS(error_of([&] { (void)outer(batch(0)); }),
               "this thread is in a forward() of a sharded model already");
    EXPECT_EQ(error_of([&] { (void)model(batch(0)); }), "");
  });
}

}  // namespace
}  // namespace dlaunch::torch
