// Gradients through remote calls.

#include "dlaunch/torch/dist_autograd.h"

#include <torch/torch.h>

#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/runtime/torch/rpc_workers.h"

namespace dlaunch::test {
namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
using dist_autograd::Context;
using rpc::rpc_async;
using rpc::rpc_sync;

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
DLAUNCH_RPC(add);
at::Tensor mul(const at::Tensor& a, const at::Tensor& b) { return a * b; }
DLAUNCH_RPC(mul);
// A weight that each worker has.
at::Tensor& weight() {
  static at::Tensor only = ::torch::full({3}, rpc::get_worker_info().id + 2., at::requires_grad());
  return only;
}
at::Tensor weigh(const at::Tensor& input) { return input * weight(); }
DLAUNCH_RPC(weigh);
std::optional<at::Tensor> gradient_of_weight(std::int64_t context) {
  const auto gradients = dist_autograd::get_gradients(context);
  const auto found = gradients.find(weight());
  return found == gradients.end() ? std::nullopt : std::optional(found->value());
}
DLAUNCH_RPC(gradient_of_weight);
bool has_grad() { return weight().grad().defined(); }
DLAUNCH_RPC(has_grad);
// Through this worker to the next ones.
Future<at::Tensor> weigh_along(std::vector<int> workers, const at::Tensor& input) {
  const at::Tensor own = weigh(input);
  if (workers.empty()) {
    const Promise<at::Tensor> done;
    done.set_value(own);
    return done.future();
  }
  const int next = workers.front();
  workers.erase(workers.begin());
  return rpc_async(next, weigh_along, workers, own);
}
DLAUNCH_RPC(weigh_along);
Future<at::Tensor> weigh_later(const at::Tensor& input) {
  return rpc_async("worker0", mul, input, input).then([](const Future<at::Tensor>& done) {
    return weigh(done.wait());
  });
}
DLAUNCH_RPC(weigh_later);
std::vector<at::Tensor> both(const at::Tensor& input) { return {input * 2, input * weight()}; }
DLAUNCH_RPC(both);
bool knows(std::int64_t context) {
  try {
    (void)dist_autograd::get_gradients(context);
    return true;
  } catch (const DistError&) {
    return false;
  }
}
DLAUNCH_RPC(knows);
at::Tensor leaf() { return weight().sum(); }
DLAUNCH_RPC(leaf);

bool close(const at::Tensor& a, const at::Tensor& b) { return a.defined() && a.allclose(b); }

TEST(DistAutograd, TheDocumentedExample) {
  expect_ok(2, []() -> std::string {
    const Context context;
    const at::Tensor t1 = ::torch::rand({3, 3}, at::requires_grad());
    const at::Tensor t2 = ::torch::rand({3, 3}, at::requires_grad());
    const at::Tensor loss = rpc_sync("worker1", add, t1, t2).sum();
    dist_autograd::backward(context.id(), {loss});
    const auto gradients = dist_autograd::get_gradients(context.id());
    REQUIRE(gradients.size() == 2);
    REQUIRE(at::equal(gradients.at(t1), ::torch::ones({3, 3})));
    REQUIRE(at::equal(gradients.at(t2), ::torch::ones({3, 3})));
    REQUIRE(!t1.grad().defined() && !t2.grad().defined());
    return "ok";
  });
}

TEST(DistAutograd, GradientsInAllWorkersOfAChain) {
  expect_ok(4, []() -> std::string {
    const Context context;
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    // 3, 4, 5 and 3 again are the weights of workers 1, 2, 3, 1.
    const at::Tensor output = rpc_sync("worker1", weigh_along, std::vector<int>{2, 3, 1}, input);
    REQUIRE(close(output, input * 180));
    dist_autograd::backward(context.id(), {(output * weight()).sum()});
    REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input), ::torch::full({3}, 360.)));
    REQUIRE(close(*gradient_of_weight(context.id()), input * 180));
    for (const auto& [worker, factor] : {std::pair(1, 120 * 2.), {2, 90.}, {3, 72.}}) {
      REQUIRE(close(*rpc_sync(worker, gradient_of_weight, context.id()), input * factor));
      REQUIRE(!rpc_sync(worker, has_grad));
    }
    return "ok";
  });
}

// Gradients of one tensor come from several workers, in several messages, in any order.
TEST(DistAutograd, PathsThatMeetAgain) {
  expect_ok(3, []() -> std::string {
    for (int round = 0; round < 20; ++round) {
      const Context context;
      const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
      const at::Tensor middle = ::torch::sin(input);
      const Future<at::Tensor> left = rpc_async("worker1", weigh, middle);
      const Future<at::Tensor> right = rpc_async("worker2", weigh, middle);
      const at::Tensor product = rpc_sync("worker2", mul, left.wait(), right.wait());  // 3 * 4 * middle^2
      const at::Tensor output = rpc_sync("worker1", mul, product, middle);
      dist_autograd::backward(context.id(), {output.sum()});
      REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input),
                    36 * ::torch::sin(input).pow(2) * ::torch::cos(input)));
    }
    return "ok";
  });
}

// FAST mode of PyTorch requires all results to be part of the loss.
TEST(DistAutograd, ResultsThatAreNotUsedHaveNoGradient) {
  expect_ok(3, []() -> std::string {
    const Context context;
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    const at::Tensor middle = input * 2;
    rpc_sync("worker1", weigh_along, std::vector<int>{2}, middle);
    const at::Tensor used = rpc_sync("worker1", both, middle)[0];
    dist_autograd::backward(context.id(), {(used + rpc_sync("worker2", add, middle, middle)).sum()});
    REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input), ::torch::full({3}, 8.)));
    REQUIRE(!rpc_sync("worker1", gradient_of_weight, context.id()));
    REQUIRE(!rpc_sync("worker2", gradient_of_weight, context.id()));
    return "ok";
  });
}

TEST(DistAutograd, FunctionsThatAnswerLaterAndCallbacks) {
  expect_ok(2, []() -> std::string {
    const Context context;
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    const at::Tensor output =
        rpc_async("worker1", weigh_later, input)
            .then([](const Future<at::Tensor>& done) { return rpc_async("worker1", weigh, done.wait() + 1); })
            .wait();
    dist_autograd::backward(context.id(), {output.sum()});  // 3 * (3 * input^2 + 1)
    REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input), 18 * input));
    return "ok";
  });
}

TEST(DistAutograd, SeveralPassesOfAContext) {
  expect_ok(2, []() -> std::string {
    const Context context;
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    const at::Tensor first = rpc_sync("worker1", mul, input, input).sum();
    dist_autograd::backward(context.id(), {first}, true);
    dist_autograd::backward(context.id(), {first});
    REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input), 4 * input));
    // The first graph is freed, and is not part of the next loss.
    dist_autograd::backward(context.id(), {rpc_sync("worker1", weigh, input).sum()});
    REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input), 4 * input + 3));
    REQUIRE_HAS(error_of([&] { dist_autograd::backward(context.id(), {first}); }), "a second time");
    return "ok";
  });
}

TEST(DistAutograd, ContextsWithinEachOther) {
  expect_ok(2, []() -> std::string {
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    const Context outer;
    const at::Tensor first = rpc_sync("worker1", weigh, input);
    {
      const Context inner;
      REQUIRE(inner.id() != outer.id());
      dist_autograd::backward(inner.id(), {rpc_sync("worker1", mul, input, input).sum()});
      REQUIRE(close(dist_autograd::get_gradients(inner.id()).at(input), 2 * input));
      REQUIRE(dist_autograd::get_gradients(outer.id()).size() == 0);
    }
    dist_autograd::backward(outer.id(), {rpc_sync("worker1", weigh, first).sum()});
    REQUIRE(close(dist_autograd::get_gradients(outer.id()).at(input), ::torch::full({3}, 9.)));
    return "ok";
  });
}

TEST(DistAutograd, ContextsAtTheSameTime) {
  expect_ok(3, []() -> std::string {
    std::vector<std::future<bool>> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.push_back(std::async(std::launch::async, [thread] {
        bool good = true;
        for (int round = 0; round < 10; ++round) {
          const Context context;
          const at::Tensor input = ::torch::full({3}, thread + 1., at::requires_grad());
          const at::Tensor output = rpc_sync("worker1", weigh_along, std::vector<int>{2, 1}, input);
          dist_autograd::backward(context.id(), {output.sum()});
          good = good &&
                 close(dist_autograd::get_gradients(context.id()).at(input), ::torch::full({3}, 36.)) &&
                 close(*rpc_sync("worker1", gradient_of_weight, context.id()), 24 * input);
        }
        return good;
      }));
    }
    for (std::future<bool>& thread : threads) REQUIRE(thread.get());
    return "ok";
  });
}

TEST(DistAutograd, TheEndOfAContextIsKnownEverywhere) {
  expect_ok(3, []() -> std::string {
    std::int64_t id = 0;
    {
      const Context context;
      id = context.id();
      rpc_sync("worker1", weigh_along, std::vector<int>{2}, ::torch::ones({3}, at::requires_grad()));
      REQUIRE(id > 0 && knows(id) && rpc_sync("worker1", knows, id) && rpc_sync("worker2", knows, id));
    }
    REQUIRE(!knows(id));
    const auto end = std::chrono::steady_clock::now() + rpc_limit;
    for (const char* worker : {"worker1", "worker2"})
      while (rpc_sync(worker, knows, id)) REQUIRE(std::chrono::steady_clock::now() < end);
    return "ok";
  });
}

TEST(DistAutograd, RemoteValuesAsRoots) {
  expect_ok(2, []() -> std::string {
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    const Context context;
    const rpc::RRef<at::Tensor> value = rpc::remote("worker1", weigh, input);
    const at::Tensor here = value.to_here();
    REQUIRE(here.requires_grad());
    const rpc::RRef<at::Tensor> loss = rpc::remote("worker1", leaf);
    dist_autograd::backward(loss, context.id());
    REQUIRE(close(*rpc_sync("worker1", gradient_of_weight, context.id()), ::torch::ones({3})));
    dist_autograd::backward(context.id(), {here.sum()});
    REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input), ::torch::full({3}, 3.)));
    // Without a context: as backward() there.
    REQUIRE(!rpc_sync("worker1", has_grad));
    dist_autograd::backward(rpc::remote("worker1", leaf));
    REQUIRE(rpc_sync("worker1", has_grad));
    REQUIRE_HAS(error_of([&] { dist_autograd::backward(value, context.id()); }),
                "has the shape [3]; roots have one element");
    return "ok";
  });
}

TEST(DistAutograd, BroadcastsHooksAndNoGrad) {
  expect_ok(2, []() -> std::string {
    const Context context;
    const at::Tensor scalar = ::torch::tensor(2., at::requires_grad());
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    int hooks = 0;
    input.register_hook([&hooks](const at::Tensor& gradient) {
      ++hooks;
      return gradient * 10;
    });
    const at::Tensor output = rpc_sync("worker1", mul, input, scalar);
    output.register_hook([&hooks](const at::Tensor&) { ++hooks; });
    at::Tensor constant;
    {
      const at::NoGradGuard no_grad;
      constant = rpc_sync("worker1", mul, input, scalar);
    }
    dist_autograd::backward(context.id(), {(output * constant).sum()});
    const auto gradients = dist_autograd::get_gradients(context.id());
    REQUIRE(close(gradients.at(input), 10 * 4 * input));
    REQUIRE(close(gradients.at(scalar), (input * 2 * input).sum()) && gradients.at(scalar).dim() == 0);
    REQUIRE(hooks == 2);
    return "ok";
  });
}

TEST(DistAutograd, AWorkerThatCallsItself) {
  expect_ok(1, []() -> std::string {
    const Context context;
    const at::Tensor input = ::torch::tensor({1., 2., 3.}, at::requires_grad());
    dist_autograd::backward(context.id(), {rpc_sync("worker0", mul, input, input).sum()});
    REQUIRE(close(dist_autograd::get_gradients(context.id()).at(input), 2 * input));
    return "ok";
  });
}

}  // namespace
}  // namespace dlaunch::test
