// PyTorch's backend "dlaunch" without the interpreter: a group of libdlaunch as c10d::Backend. The Python of
// this package does the same, call by call (calls.py); each rank may use either.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "arguments.h"
#include "tensors.h"
#include "work.h"

namespace dlaunch::torch {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using BackendPointer = c10::intrusive_ptr<c10d::Backend>;

// What the package's Python does for the group. It takes the interpreter's lock by itself.
struct Helpers {
  // Notes the program's line from which this thread calls; empty: nothing is recorded.
  std::function<void()> name_caller;
  // The backend for tensors of other devices than the CPU; empty: there is none.
  std::function<BackendPointer()> other_devices;
  // Makes a part of the group.
  std::function<BackendPointer(const c10::intrusive_ptr<c10d::Store>&, const std::vector<int>& ranks,
                               int rank, int64_t timeout_ms, const std::string& name)>
      split;
  // Frees the group, at a moment at which other threads may need the interpreter.
  std::function<void(dlaunch_group*)> destroy;
};

struct GroupParts {
  dlaunch_group* group = nullptr;  // the backend owns it
  int rank = 0;                    // of this process in it
  std::vector<int> ranks;          // its members in the job
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;  // kept: PyTorch's server may live in it
  Helpers helpers;
};

class Backend final : public c10d::Backend {
 public:
  explicit Backend(GroupParts parts)
      : c10d::Backend(parts.rank, static_cast<int>(parts.ranks.size())),
        group_(parts.group),
        ranks_(std::make_shared<const std::vector<int>>(std::move(parts.ranks))),
        timeout_(parts.timeout),
        store_(std::move(parts.store)),
        helpers_(std::move(parts.helpers)) {}
  ~Backend() override { shutdown(); }

  const std::string getBackendName() const override { return "dlaunch"; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>("dlaunch", timeout_);
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    const at::Tensor& tensor = one(tensors);
    if (tensor.layout() != at::kStrided) return all_reduce_sparse(tensor, opts);
    if (const auto other = elsewhere({tensors})) return other->allreduce(tensors, opts);
    const Reduction reduction(opts.reduceOp);
    Prepared prepared;
    const Views views = Views::reduced({prepared.output(tensor, true)}, reduction.op);
    return start(opts, c10d::OpType::ALLREDUCE, std::move(prepared), {tensor},
                 [&](int64_t timeout, dlaunch_work** work) {
                   return reduction.factor
                              ? dlaunch_all_reduce_premul_sum(views.data(), *reduction.factor, group_,
                                                              timeout, work)
                              : dlaunch_all_reduce(views.data(), reduction.op, group_, timeout, work);
                 });
  }
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    return all_reduce_sparse(one(tensors), opts);
  }
  WorkPointer allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override {
    if (const auto other = elsewhere({tensors})) return other->allreduce_coalesced(tensors, opts);
    const Reduction reduction(opts.reduceOp);
    if (reduction.factor || !have_one_dtype(tensors)) {
      return each(tensors.size(), [&](std::size_t i) {
        Tensors alone{tensors[i]};
        return allreduce(alone, opts);
      });
    }
    Prepared prepared;
    const Views views = Views::reduced(prepared.outputs(tensors, true), reduction.op);
    return start(opts, c10d::OpType::ALLREDUCE_COALESCED, std::move(prepared), tensors,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_all_reduce_coalesced(views.data(), views.size(), reduction.op, group_,
                                                       timeout, work);
                 });
  }
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override {
    if (const auto other = elsewhere({tensors})) return other->broadcast(tensors, opts);
    Prepared prepared;
    const Views views = Views::moved({prepared.output(one(tensors), true)});
    return start(opts, c10d::OpType::BROADCAST, std::move(prepared), tensors,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_broadcast(views.data(), in_job(opts.rootRank), group_, timeout, work);
                 });
  }
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override {
    if (const auto other = elsewhere({tensors})) return other->reduce(tensors, opts);
    const Reduction reduction(opts.reduceOp);
    Prepared prepared;
    const Views views = Views::reduced({prepared.output(one(tensors), true)}, reduction.op);
    return start(opts, c10d::OpType::REDUCE, std::move(prepared), tensors,
                 [&, root = in_job(opts.rootRank)](int64_t timeout, dlaunch_work** work) {
                   return reduction.factor
                              ? dlaunch_reduce_premul_sum(views.data(), root, *reduction.factor, group_,
                                                          timeout, work)
                              : dlaunch_reduce(views.data(), root, reduction.op, group_, timeout, work);
                 });
  }

  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& opts) override {
    const Tensors& all = one_list(outputs);
    if (const auto other = elsewhere({all, inputs})) return other->allgather(outputs, inputs, opts);
    Prepared prepared;
    const Views into = Views::moved(prepared.outputs(all));
    const Views from = Views::moved({prepared.input(one(inputs))});
    return start(opts, c10d::OpType::ALLGATHER, std::move(prepared), all,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_all_gather(into.data(), into.size(), from.data(), group_, timeout, work);
                 });
  }
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& opts) override {
    if (const auto other = elsewhere({output, input})) return other->_allgather_base(output, input, opts);
    Prepared prepared;
    const Views into = Views::moved({prepared.output(output)});
    const Views from = Views::moved({prepared.input(input)});
    return start(opts, c10d::OpType::_ALLGATHER_BASE, std::move(prepared), {output},
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_all_gather_into_tensor(into.data(), from.data(), group_, timeout, work);
                 });
  }
  // `outputs`: lists by rank, then by tensor.
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& opts) override {
    return each(inputs.size(), [&](std::size_t i) {
      std::vector<Tensors> of_one(1);
      for (const Tensors& of_rank : outputs) of_one[0].push_back(of_rank.at(i));
      Tensors input{inputs[i]};
      return allgather(of_one, input, opts);
    });
  }
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) override {
    if (const auto other = elsewhere({outputs, inputs}))
      return other->allgather_into_tensor_coalesced(outputs, inputs, opts);
    if (!have_one_dtype(inputs))
      return each(inputs.size(),
                  [&](std::size_t i) { return _allgather_base(outputs.at(i), inputs[i], opts); });
    Prepared prepared;
    const Views into = Views::moved(prepared.outputs(outputs));
    const Views from = Views::moved(prepared.inputs(inputs));
    return start(opts, c10d::OpType::COALESCED, std::move(prepared), outputs,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_all_gather_into_tensor_coalesced(into.data(), from.data(), into.size(),
                                                                   group_, timeout, work);
                 });
  }
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& opts) override {
    const Tensors all = outputs.empty() || outputs[0].empty() ? Tensors{} : one_list(outputs);
    if (const auto other = elsewhere({all, inputs})) return other->gather(outputs, inputs, opts);
    Prepared prepared;
    const Views into = Views::moved(prepared.outputs(all));
    const Views from = Views::moved({prepared.input(one(inputs))});
    return start(opts, c10d::OpType::GATHER, std::move(prepared), all,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_gather(into.data(), into.size(), from.data(), in_job(opts.rootRank), group_,
                                         timeout, work);
                 });
  }
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& opts) override {
    const Tensors all = inputs.empty() || inputs[0].empty() ? Tensors{} : one_list(inputs);
    if (const auto other = elsewhere({all, outputs})) return other->scatter(outputs, inputs, opts);
    Prepared prepared;
    const Views into = Views::moved({prepared.output(one(outputs))});
    const Views from = Views::moved(prepared.inputs(all));
    return start(opts, c10d::OpType::SCATTER, std::move(prepared), outputs,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_scatter(into.data(), from.data(), from.size(), in_job(opts.rootRank),
                                          group_, timeout, work);
                 });
  }

  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& opts) override {
    const Tensors& all = one_list(inputs);
    if (const auto other = elsewhere({all, outputs})) return other->reduce_scatter(outputs, inputs, opts);
    const Reduction reduction(opts.reduceOp);
    Prepared prepared;
    const Views into = Views::reduced({prepared.output(one(outputs))}, reduction.op);
    const Views from = Views::reduced(prepared.inputs(all), reduction.op);
    return start(opts, c10d::OpType::REDUCE_SCATTER, std::move(prepared), outputs,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return reduction.factor
                              ? dlaunch_reduce_scatter_premul_sum(into.data(), from.data(), from.size(),
                                                                  *reduction.factor, group_, timeout, work)
                              : dlaunch_reduce_scatter(into.data(), from.data(), from.size(), reduction.op,
                                                       group_, timeout, work);
                 });
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& opts) override {
    if (const auto other = elsewhere({output, input}))
      return other->_reduce_scatter_base(output, input, opts);
    const Reduction reduction(opts.reduceOp);
    Prepared prepared;
    const Views into = Views::reduced({prepared.output(output)}, reduction.op);
    const Views from = Views::reduced({prepared.input(input)}, reduction.op);
    return start(opts, c10d::OpType::_REDUCE_SCATTER_BASE, std::move(prepared), {output},
                 [&](int64_t timeout, dlaunch_work** work) {
                   return reduction.factor
                              ? dlaunch_reduce_scatter_tensor_premul_sum(
                                    into.data(), from.data(), *reduction.factor, group_, timeout, work)
                              : dlaunch_reduce_scatter_tensor(into.data(), from.data(), reduction.op, group_,
                                                              timeout, work);
                 });
  }
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& opts) override {
    if (const auto other = elsewhere({outputs, inputs}))
      return other->reduce_scatter_tensor_coalesced(outputs, inputs, opts);
    const Reduction reduction(opts.reduceOp);
    if (reduction.factor || !have_one_dtype(inputs)) {
      return each(inputs.size(),
                  [&](std::size_t i) { return _reduce_scatter_base(outputs.at(i), inputs[i], opts); });
    }
    Prepared prepared;
    const Views into = Views::reduced(prepared.outputs(outputs), reduction.op);
    const Views from = Views::reduced(prepared.inputs(inputs), reduction.op);
    return start(opts, c10d::OpType::COALESCED, std::move(prepared), outputs,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_reduce_scatter_tensor_coalesced(into.data(), from.data(), into.size(),
                                                                  reduction.op, group_, timeout, work);
                 });
  }

  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override {
    if (const auto other = elsewhere({outputs, inputs})) return other->alltoall(outputs, inputs, opts);
    Prepared prepared;
    const Views into = Views::moved(prepared.outputs(outputs));
    const Views from = Views::moved(prepared.inputs(inputs));
    return start(opts, c10d::OpType::ALLTOALL, std::move(prepared), outputs,
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_all_to_all(into.data(), from.data(), into.size(), group_, timeout, work);
                 });
  }
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                            std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override {
    if (const auto other = elsewhere({output, input}))
      return other->alltoall_base(output, input, output_splits, input_splits, opts);
    Prepared prepared;
    const Views into = Views::moved({prepared.output(output)});
    const Views from = Views::moved({prepared.input(input)});
    const std::vector<int64_t> received = elements(output, output_splits, size_);
    const std::vector<int64_t> sent = elements(input, input_splits, size_);
    return start(opts, c10d::OpType::ALLTOALL_BASE, std::move(prepared), {output},
                 [&](int64_t timeout, dlaunch_work** work) {
                   return dlaunch_all_to_all_single(
                       into.data(), from.data(), received.empty() ? nullptr : received.data(),
                       sent.empty() ? nullptr : sent.data(), group_, timeout, work);
                 });
  }

  WorkPointer barrier(const c10d::BarrierOptions& opts) override {
    return start(opts, c10d::OpType::BARRIER, {}, {}, [&](int64_t timeout, dlaunch_work** work) {
      return dlaunch_barrier(group_, timeout, work);
    });
  }
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override {
    require_group();
    name_caller();
    // Zero, which elsewhere means the group's timeout, is a short one here, as gloo's.
    const int64_t timeout = opts.timeout.count() == 0 ? 1 : milliseconds(opts.timeout);
    if (const int status = dlaunch_monitored_barrier(group_, timeout, wait_all_ranks ? 1 : 0)) fail(status);
  }

  WorkPointer send(Tensors& tensors, int to, int tag) override {
    if (const auto other = elsewhere({tensors})) return other->send(tensors, to, tag);
    Prepared prepared;
    const Views views = Views::moved({prepared.input(one(tensors))});
    return start_message(c10d::OpType::SEND, std::move(prepared), tensors, [&](dlaunch_work** work) {
      return dlaunch_send(views.data(), in_job(to), static_cast<uint32_t>(tag), group_, 0, work);
    });
  }
  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    if (const auto other = elsewhere({tensors})) return other->recv(tensors, from, tag);
    return receive(c10d::OpType::RECV, tensors, in_job(from), tag);
  }
  WorkPointer recvAnysource(Tensors& tensors, int tag) override {
    if (const auto other = elsewhere({tensors})) return other->recvAnysource(tensors, tag);
    return receive(c10d::OpType::RECVANYSOURCE, tensors, DLAUNCH_ANY_SOURCE, tag);
  }

  void startCoalescing() override { collected_.emplace(); }
  WorkPointer endCoalescing() override {
    return c10::make_intrusive<Together>(
        std::exchange(collected_, std::nullopt).value_or(std::vector<WorkPointer>{}));
  }

  void setSequenceNumberForGroup() override {}  // begins with 0
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override {
    const int status = error_status_;
    if (status == DLAUNCH_OK) return c10d::ErrorType::SUCCESS;
    return status == DLAUNCH_ERROR_NETWORK ? c10d::ErrorType::REMOTE_ERROR : c10d::ErrorType::COMM_ERROR;
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    require_group();
    timeout_ = timeout;
    if (const int status = dlaunch_set_timeout(group_, milliseconds(timeout))) fail(status);
  }
  void abort() override {
    if (group_ != nullptr) dlaunch_abort(group_, "the program aborted the process group");
  }
  void shutdown() override {
    if (dlaunch_group* const group = std::exchange(group_, nullptr)) helpers_.destroy(group);
  }

  bool supportsSplitting() const override { return true; }
  BackendPointer split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                       const c10::intrusive_ptr<Options>& opts) override {
    const auto found = std::find(ranks.begin(), ranks.end(), rank_);
    if (found == ranks.end()) return nullptr;
    std::string name = "split ";
    std::vector<int> of_job;
    for (const int rank : ranks) {
      name += (of_job.empty() ? "" : ",") + std::to_string(rank);
      of_job.push_back(in_job(rank));
    }
    const std::chrono::milliseconds timeout = opts ? opts->timeout : timeout_;
    return helpers_.split(store, of_job, static_cast<int>(found - ranks.begin()), milliseconds(timeout),
                          name);
  }

  // For DistributedDataParallel's buckets and FSDP2's buffers, on the CPU: reductions of such tensors copy
  // nothing.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    if (!options.device().is_cpu())
      C10_THROW_ERROR(DistError, "backend dlaunch allocates tensors on the CPU; " + options.device().str() +
                                     " is asked for");
    require_group();
    const std::size_t bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
    if (bytes == 0) return at::empty({size}, options);
    void* memory = nullptr;
    if (const int status = dlaunch_allocate_shared(bytes, group_, &memory, nullptr)) fail(status);
    return at::from_blob(
        memory, {size}, [](void* data) { dlaunch_free_shared(data); }, options);
  }

 private:
  // nullptr: the tensors are on the CPU.
  BackendPointer elsewhere(std::initializer_list<at::TensorList> lists) {
    for (const at::TensorList tensors : lists) {
      for (const at::Tensor& tensor : tensors) {
        if (!tensor.device().is_cpu()) return backend_for(tensor.device());
      }
    }
    return nullptr;
  }
  BackendPointer backend_for(at::Device device) {
    if (helpers_.other_devices) return helpers_.other_devices();
    C10_THROW_ERROR(ValueError, "backend dlaunch has no operations on " + device.str() +
                                    ": name a backend for that device too, as in "
                                    "init_process_group('cpu:dlaunch,cuda:nccl')");
  }
  void require_group() const {
    if (group_ == nullptr) C10_THROW_ERROR(DistError, "the process group has been destroyed or aborted");
  }
  [[nodiscard]] int in_job(int64_t rank) const { return ranks_->at(static_cast<std::size_t>(rank)); }
  void name_caller() const {
    if (helpers_.name_caller) helpers_.name_caller();
  }
  [[noreturn]] void fail(int status) {
    error_status_ = status;
    std::rethrow_exception(error_of(status));
  }

  template <typename Options, typename Call>
  WorkPointer start(const Options& opts, c10d::OpType type, Prepared prepared, Tensors outputs,
                    const Call& call) {
    require_group();
    const uint64_t sequence = ++sequence_;
    name_caller();
    if (!opts.asyncOp && !collected_) {
      if (const int status = call(milliseconds(opts.timeout), nullptr)) fail(status);
      prepared.copy_back();
      return done();
    }
    dlaunch_work* handle = nullptr;
    if (const int status = call(milliseconds(opts.timeout), &handle)) fail(status);
    return keep(handle, type, std::move(prepared), std::move(outputs), sequence);
  }
  template <typename Call>
  WorkPointer start_message(c10d::OpType type, Prepared prepared, Tensors outputs, const Call& call) {
    require_group();
    name_caller();
    dlaunch_work* handle = nullptr;
    if (const int status = call(&handle)) fail(status);
    return keep(handle, type, std::move(prepared), std::move(outputs), 0);
  }
  WorkPointer receive(c10d::OpType type, Tensors& tensors, int from, int tag) {
    Prepared prepared;
    const Views views = Views::moved({prepared.output(one(tensors))});
    return start_message(type, std::move(prepared), tensors, [&](dlaunch_work** work) {
      return dlaunch_recv(views.data(), from, static_cast<uint32_t>(tag), group_, 0, nullptr, work);
    });
  }
  WorkPointer keep(dlaunch_work* handle, c10d::OpType type, Prepared prepared, Tensors outputs,
                   uint64_t sequence) {
    auto work =
        c10::make_intrusive<Work>(handle, type, std::move(prepared), std::move(outputs), sequence, ranks_);
    work->begin();
    if (collected_) collected_->push_back(work);
    return work;
  }
  // An operation that has succeeded.
  static WorkPointer done() {
    static const auto* const one = new WorkPointer(c10::make_intrusive<Together>(std::vector<WorkPointer>{}));
    return *one;
  }
  template <typename Call>
  static WorkPointer each(std::size_t count, const Call& call) {
    std::vector<WorkPointer> works;
    for (std::size_t i = 0; i < count; ++i) works.push_back(call(i));
    return c10::make_intrusive<Together>(std::move(works));
  }

  // Completes before it returns. `tensor` becomes the coalesced sum, as gloo's does.
  WorkPointer all_reduce_sparse(const at::Tensor& tensor, const c10d::AllreduceOptions& opts) {
    if (tensor.layout() != at::kSparse)
      C10_THROW_ERROR(ValueError,
                      "backend dlaunch cannot reduce a tensor of layout " + c10::str(tensor.layout()));
    if (opts.reduceOp != c10d::ReduceOp::SUM)
      C10_THROW_ERROR(ValueError, "backend dlaunch can only sum sparse tensors");
    const at::Tensor own = tensor.detach().coalesce();
    at::Tensor counts = at::empty({size_}, at::kLong);
    at::Tensor count = at::full({1}, own._nnz(), at::kLong);
    _allgather_base(counts, count, {})->wait();
    const at::Tensor own_indices = own.indices();
    const at::Tensor own_values = own.values();
    std::vector<Tensors> indices(1);
    std::vector<Tensors> values(1);
    for (int64_t rank = 0; rank < size_; ++rank) {
      const int64_t length = counts[rank].item<int64_t>();
      std::vector<int64_t> shape = own_values.sizes().vec();
      shape[0] = length;
      indices[0].push_back(at::empty({own_indices.size(0), length}, at::kLong));
      values[0].push_back(at::empty(shape, own_values.options()));
    }
    Tensors of_indices{own_indices};
    Tensors of_values{own_values};
    allgather(indices, of_indices, {})->wait();
    allgather(values, of_values, {})->wait();
    const at::NoGradGuard no_grad;
    tensor.copy_(at::sparse_coo_tensor(at::cat(indices[0], 1), at::cat(values[0]), own.sizes()).coalesce());
    return c10::make_intrusive<Together>(std::vector<WorkPointer>{}, Tensors{tensor});
  }

  dlaunch_group* group_;
  const std::shared_ptr<const std::vector<int>> ranks_;
  std::chrono::milliseconds timeout_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const Helpers helpers_;
  std::atomic<uint64_t> sequence_ = 0;
  std::atomic<int> error_status_ = DLAUNCH_OK;
  std::optional<std::vector<WorkPointer>> collected_;  // between startCoalescing() and endCoalescing()
};

}  // namespace dlaunch::torch
