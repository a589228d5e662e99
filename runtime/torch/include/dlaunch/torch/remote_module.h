// A module that lives in another worker: torch.distributed.nn.RemoteModule.
//
//   dlaunch::torch::RemoteModule<torch::nn::Linear> linear("worker1/cpu", 20, 30);
//   at::Tensor output = linear.forward(torch::randn({128, 20}));
//
// Both workers run programs in which the same RemoteModule is made, and called, with the same types: by that
// the functions that it calls are registered.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/future.h"
#include "dlaunch/rref.h"
#include "dlaunch/torch/dist_autograd.h"
#include "dlaunch/torch/rpc_tensors.h"

namespace dlaunch::torch {
inline namespace v1 {

namespace rpc_detail {

// The worker of "worker1/cpu" or "worker1". DistError for another device than the CPU.
DLAUNCH_EXPORT std::string worker_of(std::string_view remote_device);
// "RemoteModule<torch::nn::Linear>(int, int)"
DLAUNCH_EXPORT std::string readable_name(const std::type_info& type);
DLAUNCH_EXPORT std::vector<rpc::RRef<at::Tensor>> references_to(std::vector<at::Tensor> tensors);

template <class Module>
struct ImplOf {
  using type = Module;
};
template <class Module>
requires requires { typename Module::ContainedType; }
struct ImplOf<Module> {
  using type = typename Module::ContainedType;
};

// Registers the function `call` of a class when it is used.
template <class Function>
struct Registered {
  static auto function() {
    (void)&registration;
    return &Function::call;
  }
  static inline const rpc::Registration registration{readable_name(typeid(Function)), &Function::call};
};

template <class Impl, class... A>
struct MakeModule {
  static std::shared_ptr<Impl> call(A... arguments) {
    return std::make_shared<Impl>(std::move(arguments)...);
  }
};
template <class Impl, class... A>
struct Forward {
  using Result = std::remove_cvref_t<decltype(std::declval<Impl&>().forward(std::declval<A&>()...))>;
  static Result call(Impl& module, A... arguments) { return module.forward(arguments...); }
};
template <class Impl>
struct Parameters {
  static std::vector<rpc::RRef<at::Tensor>> call(Impl& module) { return references_to(module.parameters()); }
};
template <class Impl>
struct Train {
  static void call(Impl& module, bool on) { module.train(on); }
};

}  // namespace rpc_detail

// A handle; copies refer to the same module, which lives as long as one of them, in any worker (RRef). May be
// an argument and a result of remote calls.
// `Module`: a module of LibTorch or of the program, or a holder of one. Any thread; the module's forward()
// may run for several callers at a time.
template <class Module>
class RemoteModule {
 public:
  using Impl = typename rpc_detail::ImplOf<Module>::type;

  // Refers to none: to be assigned to.
  RemoteModule() = default;
  // Makes the module with these arguments in the worker of `remote_device`: "worker1/cpu" or "worker1".
  // Returns at once. If the module's constructor throws, forward() throws that error. Throws DistError if
  // there is no such worker, and for a device that is not the CPU.
  template <class... A>
  explicit RemoteModule(std::string_view remote_device, A... arguments)
      : module_(rpc::remote(rpc_detail::worker_of(remote_device),
                            rpc_detail::Registered<rpc_detail::MakeModule<Impl, A...>>::function(),
                            std::move(arguments)...)) {}

  // The module's forward(), there. Under a context of dist_autograd the graph goes on through it.
  template <class... A>
  auto forward(A... arguments) const {
    return forward_async(std::move(arguments)...).wait();
  }
  template <class... A>
  auto forward_async(A... arguments) const {
    return module_.rpc_async(rpc_detail::Registered<rpc_detail::Forward<Impl, A...>>::function(),
                             std::move(arguments)...);
  }
  template <class... A>
  auto operator()(A... arguments) const {
    return forward(std::move(arguments)...);
  }

  // To the parameters, for DistributedOptimizer.
  [[nodiscard]] std::vector<rpc::RRef<at::Tensor>> remote_parameters() const {
    return module_.rpc_sync(rpc_detail::Registered<rpc_detail::Parameters<Impl>>::function());
  }
  [[nodiscard]] const rpc::RRef<Impl>& get_module_rref() const { return module_; }

  void train(bool on = true) const {
    module_.rpc_sync(rpc_detail::Registered<rpc_detail::Train<Impl>>::function(), on);
  }
  void eval() const { train(false); }

 private:
  template <class Archive>
  friend void serialize(Archive& archive, RemoteModule& module) {
    archive(module.module_);
  }

  rpc::RRef<Impl> module_;
};

}  // namespace v1
}  // namespace dlaunch::torch
