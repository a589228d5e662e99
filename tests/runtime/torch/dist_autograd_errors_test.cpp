// Failures of distributed autograd, and the worker that the error names.

#include <sys/wait.h>
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/torch/dist_autograd.h"
#include "tests/runtime/torch/rpc_workers.h"

namespace dlaunch::test {
namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
using dist_autograd::Context;
using rpc::rpc_async;
using rpc::rpc_sync;

struct FailingBackward : ::torch::autograd::Function<FailingBackward> {
  static at::Tensor forward(::torch::autograd::AutogradContext* /*context*/, const at::Tensor& input) {
    return input * 2;
  }
  static ::torch::autograd::variable_list backward(::torch::autograd::AutogradContext* /*context*/,
                                                   const ::torch::autograd::variable_list& /*gradients*/) {
    throw std::runtime_error("no gradient today");
  }
};
struct DyingBackward : ::torch::autograd::Function<DyingBackward> {
  static at::Tensor forward(::torch::autograd::AutogradContext* /*context*/, const at::Tensor& input) {
    return input * 2;
  }
  static ::torch::autograd::variable_list backward(::torch::autograd::AutogradContext* /*context*/,
                                                   const ::torch::autograd::variable_list& gradients) {
    raise(SIGKILL);
    return gradients;
  }
};
at::Tensor fail_in_backward(const at::Tensor& input) { return FailingBackward::apply(input); }
DLAUNCH_RPC(fail_in_backward);
at::Tensor die_in_backward(const at::Tensor& input) { return DyingBackward::apply(input); }
DLAUNCH_RPC(die_in_backward);
Future<at::Tensor> pass_on(const std::string& worker, bool dies, const at::Tensor& input) {
  return rpc_async(worker, dies ? die_in_backward : fail_in_backward, input * 3);
}
DLAUNCH_RPC(pass_on);
at::Tensor twice(const at::Tensor& input) { return input * 2; }
DLAUNCH_RPC(twice);
at::Tensor sum_of_two(const at::Tensor& a, const at::Tensor& b) { return a + b; }
DLAUNCH_RPC(sum_of_two);
at::Tensor reject(const at::Tensor& /*input*/, const std::string& why) { throw std::invalid_argument(why); }
DLAUNCH_RPC(reject);
// Makes calls that fail before they are sent.
at::Tensor call_in_vain(const at::Tensor& input) {
  const at::Tensor middle = input * 2;
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { rpc_sync("nobody", twice, middle); },
           [&] {
             rpc_sync({"worker0", std::chrono::seconds(-1)}, twice, middle);
           },
           [&] { rpc_sync("worker0", sum_of_two, middle, ::torch::eye(2).to_sparse()); },
           [&] { rpc::remote("nobody", twice, middle); }}) {
    try {
      call();
    } catch (const DistError&) {
      continue;
    }
    throw std::logic_error("a call has not failed");
  }
  return middle;
}
DLAUNCH_RPC(call_in_vain);
std::pair<at::Tensor, at::Tensor> result_in_vain(const at::Tensor& input) {
  return {input * 2, ::torch::eye(2).to_sparse()};
}
DLAUNCH_RPC(result_in_vain);
at::Tensor unregistered_there(const at::Tensor& input) { return input; }
std::size_t gradients_in(std::int64_t context) { return dist_autograd::get_gradients(context).size(); }
DLAUNCH_RPC(gradients_in);

at::Tensor input_tensor() { return ::torch::tensor({1., 2., 3.}, at::requires_grad()); }

TEST(DistAutogradErrors, AContextThatIsUnknown) {
  expect_ok(2, []() -> std::string {
    REQUIRE_HAS(error_of([] { dist_autograd::backward(7, {input_tensor().sum()}); }),
                "worker worker0 does not know context 7 of distributed autograd");
    REQUIRE_HAS(error_of([] { (void)dist_autograd::get_gradients(7); }), "or it has ended");
    const Context context;
    {
      const rpc::rpc_detail::CallContextScope none(0);
      REQUIRE_HAS(error_of([&] { rpc_sync("worker1", gradients_in, context.id()); }),
                  "worker worker1 does not know context");
    }
    REQUIRE(rpc_sync("worker1", gradients_in, context.id()) == 0);  // this call is under it
    return "ok";
  });
}

TEST(DistAutogradErrors, RootsThatAreNone) {
  expect_ok(1, []() -> std::string {
    const Context context;
    const auto backward = [&](const torch::Tensors& roots) {
      return error_of([&] { dist_autograd::backward(context.id(), roots); });
    };
    REQUIRE_HAS(backward({}), "there are no roots");
    REQUIRE_HAS(backward({at::Tensor()}), "root 0 is undefined");
    REQUIRE_HAS(backward({input_tensor().sum(), input_tensor()}),
                "root 1 has the shape [3]; roots have one element");
    REQUIRE_HAS(backward({::torch::ones({})}), "root 0 requires no gradient");
    return "ok";
  });
  EXPECT_NE(error_of([] { const Context context; }).find("call init_rpc first"), std::string::npos);
}

TEST(DistAutogradErrors, TheBackwardOfLibTorchIsRejected) {
  expect_ok(2, []() -> std::string {
    const Context context;
    const at::Tensor loss = rpc_sync("worker1", twice, input_tensor()).sum();
    REQUIRE_HAS(error_of([&] { loss.backward(); }), "use dist_autograd::backward() instead");
    return "ok";
  });
}

TEST(DistAutogradErrors, AFunctionThatThrowsInBackwardIsNamed) {
  expect_ok(3, []() -> std::string {
    const Context context;
    const at::Tensor output = rpc_sync("worker1", pass_on, "worker2", false, input_tensor());
    const std::string error = error_of([&] { dist_autograd::backward(context.id(), {output.sum()}); });
    REQUIRE_HAS(error, "no gradient today");
    REQUIRE_HAS(error, "worker worker2");
    // The next pass is not concerned.
    const at::Tensor input = input_tensor();
    const Context next;
    dist_autograd::backward(next.id(), {rpc_sync("worker2", twice, input).sum()});
    REQUIRE(dist_autograd::get_gradients(next.id()).size() == 1);
    return "ok";
  });
}

// The rest of the pass goes on.
TEST(DistAutogradErrors, CallsThatHaveFailedDoNotTakePart) {
  expect_all_say(run_processes(2,
                               [](int rank) -> std::string {
                                 if (rank == 0) rpc::Registration("absent", unregistered_there);
                                 rpc::init_rpc(name_of(rank));
                                 std::string said = "ok";
                                 if (rank == 0) {
                                   const Context context;
                                   const at::Tensor input = input_tensor();
                                   const at::Tensor middle = rpc_sync("worker1", twice, input);
                                   said = error_of([&] { rpc_sync("worker1", unregistered_there, middle); });
                                   said += error_of([&] { rpc_sync("worker1", reject, middle, "not this"); });
                                   dist_autograd::backward(context.id(), {middle.sum()});
                                   const auto gradients = dist_autograd::get_gradients(context.id());
                                   if (said.find("registered no function 'absent'") != std::string::npos &&
                                       said.find("not this") != std::string::npos &&
                                       gradients.at(input).equal(::torch::full({3}, 2., at::kDouble)))
                                     said = "ok";
                                 }
                                 rpc::shutdown();
                                 return said;
                               }),
                 "ok");
}

// No gradient comes for what was not sent.
TEST(DistAutogradErrors, CallsThatWereNotSentDoNotTakePart) {
  expect_ok(2, []() -> std::string {
    const Context context;
    const at::Tensor input = input_tensor();
    const at::Tensor output = rpc_sync("worker1", call_in_vain, input);
    REQUIRE_HAS(error_of([&] { rpc_sync("worker1", result_in_vain, input); }), "is sparse");
    dist_autograd::backward(context.id(), {output.sum()}, false, rpc_limit / 3);
    REQUIRE(dist_autograd::get_gradients(context.id()).at(input).equal(::torch::full({3}, 2., at::kDouble)));
    return "ok";
  });
}

TEST(DistAutogradErrors, AWorkerThatDiesInBackwardIsNamed) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    rpc::init_rpc(name_of(rank));
    std::string said = "ok";
    if (rank == 0) {
      const Context context;
      const at::Tensor output = rpc_sync("worker1", pass_on, "worker2", true, input_tensor());
      said = error_of([&] { dist_autograd::backward(context.id(), {output.sum()}); });
    }
    try {
      rpc::shutdown();
    } catch (const DistError&) {  // NOLINT(bugprone-empty-catch): it names worker2
    }
    return said;
  });
  EXPECT_NE(results[0].said.find("worker worker2 (rank 2)"), std::string::npos) << results[0].said;
  EXPECT_NE(results[0].said.find("died"), std::string::npos) << results[0].said;
  EXPECT_EQ(results[1].said, "ok");
  EXPECT_TRUE(WIFSIGNALED(results[2].status));
}

}  // namespace
}  // namespace dlaunch::test
