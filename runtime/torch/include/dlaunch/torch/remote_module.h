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

struct Placement {
  std::string worker;
  int device;  // of CUDA; -1: the CPU
};
// Of "worker1/cuda:0", "worker1/cpu" or "worker1". Throws DistError.
DLAUNCH_EXPORT Placement placement_of(std::string_view remote_device);
// -1: it stays. Throws DistError if this worker does not have the device.
DLAUNCH_EXPORT void move_to_device(::torch::nn::Module& module, int device);
DLAUNCH_EXPORT at::Tensor on_device(const at::Tensor& tensor, int device);
template <class T>
const T& on_device(const T& value, int /*device*/) {
  return value;
}
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
  static std::shared_ptr<Impl> call(int device, A... arguments) {
    auto module = std::make_shared<Impl>(std::move(arguments)...);
    move_to_device(*module, device);
    return module;
  }
};
template <class Impl, class... A>
struct Forward {
  using Result = std::remove_cvref_t<decltype(std::declval<Impl&>().forward(std::declval<A&>()...))>;
  static Result call(Impl& module, int device, A... arguments) {
    if (device < 0) return module.forward(arguments...);
    return module.forward(on_device(arguments, device)...);
  }
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
  // Makes the module with these arguments in the worker of `remote_device`: "worker1/cuda:0", "worker1/cpu"
  // or "worker1". Returns at once. If the module's constructor throws, or the worker does not have the
  // device, forward() throws the error. Throws DistError if there is no such worker, or the device is neither
  // the CPU nor one of CUDA.
  template <class... A>
  explicit RemoteModule(std::string_view remote_device, A... arguments)
      : RemoteModule(rpc_detail::placement_of(remote_device), std::move(arguments)...) {}

  // The module's forward(), there. Under a context of dist_autograd the graph goes on through it. If it is on
  // a CUDA device, arguments that are tensors of another one or of the CPU are copied there; its results come
  // by the device map (rpc_tensors.h).
  template <class... A>
  auto forward(A... arguments) const {
    return forward_async(std::move(arguments)...).wait();
  }
  template <class... A>
  auto forward_async(A... arguments) const {
    return module_.rpc_async(rpc_detail::Registered<rpc_detail::Forward<Impl, A...>>::function(), device_,
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
    archive(module.module_, module.device_);
  }

  template <class... A>
  explicit RemoteModule(const rpc_detail::Placement& place, A... arguments)
      : module_(rpc::remote(place.worker,
                            rpc_detail::Registered<rpc_detail::MakeModule<Impl, A...>>::function(),
                            place.device, std::move(arguments)...)),
        device_(place.device) {}

  rpc::RRef<Impl> module_;
  int device_ = -1;  // as of Placement
};

}  // namespace v1
}  // namespace dlaunch::torch
