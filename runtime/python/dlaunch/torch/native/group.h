// A process group of backend "dlaunch" alone. PyTorch's own group sends each call through its dispatcher,
// which takes longer than a short message; this one calls its backend.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "backend.h"

namespace dlaunch::torch {

class Group final : public c10d::ProcessGroup {
 public:
  Group(const c10::intrusive_ptr<c10d::Store>& store, c10::intrusive_ptr<Backend> backend)
      : c10d::ProcessGroup(store, backend->getRank(), backend->getSize()), backend_(std::move(backend)) {
    setBackend(c10::DeviceType::CPU, BackendType::CUSTOM, backend_);
    setDefaultBackend(BackendType::CUSTOM);
  }

  const std::string getBackendName() const override { return "dlaunch"; }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    return is_direct({tensors}) ? backend_->allreduce(tensors, opts) : ProcessGroup::allreduce(tensors, opts);
  }
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override {
    return is_direct({tensors}) ? backend_->broadcast(tensors, opts) : ProcessGroup::broadcast(tensors, opts);
  }
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override {
    return is_direct({tensors}) ? backend_->reduce(tensors, opts) : ProcessGroup::reduce(tensors, opts);
  }
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& opts) override {
    const bool direct = outputs.size() == 1 && is_direct({inputs, outputs[0]});
    return direct ? backend_->allgather(outputs, inputs, opts)
                  : ProcessGroup::allgather(outputs, inputs, opts);
  }
  // The next ones have one of two names, by PyTorch's version; the newer one forwards the older one.
  virtual WorkPointer all_gather_single(at::Tensor& output, at::Tensor& input,
                                        const c10d::AllgatherOptions& opts) {
    if (is_direct({output, input})) return backend_->_allgather_base(output, input, opts);
    return dispatched([&](auto& group) {
      if constexpr (requires { group.ProcessGroup::all_gather_single(output, input, opts); }) {
        return group.ProcessGroup::all_gather_single(output, input, opts);
      } else {
        return group.ProcessGroup::_allgather_base(output, input, opts);
      }
    });
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& opts) override {
    return all_gather_single(output, input, opts);
  }
  virtual WorkPointer reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                            const c10d::ReduceScatterOptions& opts) {
    if (is_direct({output, input})) return backend_->_reduce_scatter_base(output, input, opts);
    return dispatched([&](auto& group) {
      if constexpr (requires { group.ProcessGroup::reduce_scatter_single(output, input, opts); }) {
        return group.ProcessGroup::reduce_scatter_single(output, input, opts);
      } else {
        return group.ProcessGroup::_reduce_scatter_base(output, input, opts);
      }
    });
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& opts) override {
    return reduce_scatter_single(output, input, opts);
  }
  WorkPointer send(Tensors& tensors, int to, int tag) override {
    return is_direct({tensors}) ? backend_->send(tensors, to, tag) : ProcessGroup::send(tensors, to, tag);
  }
  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    return is_direct({tensors}) ? backend_->recv(tensors, from, tag) : ProcessGroup::recv(tensors, from, tag);
  }
  WorkPointer barrier(const c10d::BarrierOptions& opts) override {
    return is_direct({}) ? backend_->barrier(opts) : ProcessGroup::barrier(opts);
  }

  uint64_t getSequenceNumberForGroup() override { return backend_->getSequenceNumberForGroup(); }

 private:
  // A call of PyTorch's own group, whose name depends on the version.
  template <typename Call>
  WorkPointer dispatched(const Call& call) {
    return call(static_cast<c10d::ProcessGroup&>(*this));
  }
  // Nothing observes or replaces operations (a profiler, a mode of torch_dispatch as fake tensors have,
  // tensors of Python), and the tensors are this backend's.
  static bool is_direct(std::initializer_list<at::TensorList> lists) {
    if (at::hasCallbacks() || c10::impl::TorchDispatchModeTLS::any_modes_set()) return false;
    if (c10d::allow_inflight_collective_as_graph_input()) return false;
    return std::all_of(lists.begin(), lists.end(), [](at::TensorList tensors) {
      return std::all_of(tensors.begin(), tensors.end(), is_plain_cpu);
    });
  }
  static bool is_plain_cpu(const at::Tensor& tensor) {
    const c10::DispatchKeySet keys = tensor.key_set();
    return tensor.device().is_cpu() && !keys.has(c10::DispatchKey::Python) &&
           !keys.has(c10::DispatchKey::Functionalize);
  }

  const c10::intrusive_ptr<Backend> backend_;
};

}  // namespace dlaunch::torch
