// Modules in other workers.

#include "dlaunch/torch/remote_module.h"

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/torch/rpc_workers.h"

namespace dlaunch::test {
namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
using torch::RemoteModule;

struct ScaleImpl : ::torch::nn::Module {
  explicit ScaleImpl(double factor) {
    if (factor == 0) throw std::invalid_argument("the factor is 0");
    factor_ = register_parameter("factor", ::torch::full({}, factor, at::kDouble));
  }
  std::vector<at::Tensor> forward(const at::Tensor& input, int power) {
    return {input * factor_.pow(power), ::torch::tensor(is_training() ? 1 : 0)};
  }
  at::Tensor factor_;
};
// Of the program, without a holder.
using Scale = ScaleImpl;

TEST(RemoteModule, TheDocumentedExample) {
  expect_ok(2, []() -> std::string {
    const RemoteModule<::torch::nn::Linear> linear("worker1/cpu", 20, 30);
    const at::Tensor input = ::torch::randn({128, 20});
    const at::Tensor output = linear.forward_async(input).wait();
    REQUIRE(output.sizes() == at::IntArrayRef({128, 30}));
    REQUIRE(linear.get_module_rref().owner_name() == "worker1");
    const std::vector<rpc::RRef<at::Tensor>> parameters = linear.remote_parameters();
    REQUIRE(parameters.size() == 2 && parameters[0].owner_name() == "worker1");
    const at::Tensor expected = ::torch::linear(input, parameters[0].to_here(), parameters[1].to_here());
    REQUIRE(output.allclose(expected) && linear(input).equal(output));
    return "ok";
  });
}

TEST(RemoteModule, AModuleOfTheProgram) {
  expect_ok(2, []() -> std::string {
    const RemoteModule<Scale> scale("worker1", 3.);
    const RemoteModule<Scale> own("worker0/cpu", 2.);
    const dist_autograd::Context context;
    const at::Tensor input = ::torch::tensor({1., 2.}, at::requires_grad());
    const at::Tensor middle = own.forward(input, 1)[0];
    const std::vector<at::Tensor> output = scale.forward(middle, 2);
    REQUIRE(output[0].equal(input * 18) && output[1].item<int>() == 1);
    dist_autograd::backward(context.id(), {output[0].sum()});
    REQUIRE(dist_autograd::get_gradients(context.id()).at(input).equal(::torch::full({2}, 18.)));
    scale.eval();
    REQUIRE(scale.forward(input, 1)[1].item<int>() == 0);
    scale.train();
    REQUIRE(scale.forward(input, 1)[1].item<int>() == 1);
    return "ok";
  });
}

TEST(RemoteModule, Errors) {
  expect_ok(2, []() -> std::string {
    REQUIRE_HAS(
        error_of([] { const RemoteModule<Scale> scale("worker1/xla:0", 1.); }),
        "the remote device \"worker1/xla:0\" is neither on the CPU nor on CUDA: give \"worker1/cpu\"");
    REQUIRE_HAS(error_of([] { const RemoteModule<Scale> scale("worker1/cuda:", 1.); }),
                "is neither on the CPU");
    REQUIRE_HAS(error_of([] { const RemoteModule<Scale> scale("worker1/cuda:-1", 1.); }),
                "is neither on the CPU");
    REQUIRE_HAS(error_of([] { RemoteModule<Scale>("worker1/cuda:99", 1.).forward(at::Tensor(), 1); }),
                "a RemoteModule is to be on cuda:99, and worker worker1 has so many devices: ");
    REQUIRE_HAS(error_of([] { const RemoteModule<Scale> scale("worker7", 1.); }),
                "there is no worker 'worker7'");
    const RemoteModule<Scale> zero("worker1", 0.);
    REQUIRE_HAS(error_of([&] { zero.forward(::torch::ones({1}), 1); }),
                "std::invalid_argument: the factor is 0");
    const RemoteModule<::torch::nn::Linear> linear("worker1", 2, 3);
    const std::string error = error_of([&] { linear.forward(::torch::ones({5})); });
    REQUIRE_HAS(error, "'Forward<torch::nn::LinearImpl, at::Tensor>' failed in worker worker1");
    return "ok";
  });
}

TEST(RemoteModule, LongNamesAreCut) {
  struct Other {};
  using Long =
      std::tuple<ScaleImpl, ScaleImpl, ScaleImpl, ScaleImpl, ScaleImpl, ScaleImpl, ScaleImpl, ScaleImpl>;
  EXPECT_LE(torch::rpc_detail::readable_name(typeid(Long)).size(), 256U);
  EXPECT_NE(torch::rpc_detail::readable_name(typeid(std::tuple<Long, int>)),
            torch::rpc_detail::readable_name(typeid(std::tuple<Long, Other>)));
}

}  // namespace
}  // namespace dlaunch::test
