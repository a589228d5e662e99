// The operations of a group: each checks its arguments and calls the backend.
#include <algorithm>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/group/argument_checks.h"
#include "runtime/group/group_impl.h"
#include "runtime/group/splits.h"
#include "runtime/group/tensor_parts.h"
#include "runtime/group/together.h"
#include "runtime/group/when_all.h"

namespace dlaunch::internal {

namespace {

// For an operation in place.
GroupRecorder::What recorded(page::Operation operation, const Tensor& tensor) {
  return {operation, tensor.dtype(), tensor.numel(), tensor.numel()};
}

// "[float32[2, 3] on cpu, float32[4] on cpu]"
std::string described(std::span<const Tensor> tensors) {
  std::string text = "[";
  for (const Tensor& tensor : tensors) text += (text.size() > 1 ? ", " : "") + tensor.to_string();
  return text + "]";
}

std::string root(const char* role, int rank) { return std::string(", ") + role + " " + std::to_string(rank); }

std::string reduction_text(ReduceOp op) { return ", " + std::string(to_string(op)); }

std::string all_gather_into_tensor_text(const Tensor& output) {
  return "all_gather_into_tensor(" + output.to_string() + ")";
}
std::string reduce_scatter_tensor_text(const Tensor& input, ReduceOp op) {
  return "reduce_scatter_tensor(" + input.to_string() + reduction_text(op) + ")";
}

}  // namespace

Work GroupImpl::all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options) {
  constexpr const char* name = "all_reduce";
  if (skips_as_non_member(name)) return {};
  require_writable(description_, name, tensor);
  require_allowed(description_, name, tensor, op);
  const Reduction reduction{op, options.premul_factor};
  const auto describe = [&] {
    return std::string(name) + "(" + tensor.to_string() + reduction_text(op) + ")";
  };
  const OperationSpec call{
      name, tensor.device(), tensor.nbytes(), describe, recorded(page::Operation::all_reduce, tensor), {},
      op};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.all_reduce(tensor, reduction, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::broadcast(const Tensor& tensor, int src, const OperationOptions& options) {
  constexpr const char* name = "broadcast";
  if (skips_as_non_member(name)) return {};
  require_rank(description_, name, "src", src);
  if (src != description_.rank) require_writable(description_, name, tensor);
  const auto describe = [&] { return std::string(name) + "(" + tensor.to_string() + root("src", src) + ")"; };
  const OperationSpec call{name, tensor.device(), tensor.nbytes(), describe,
                           recorded(page::Operation::broadcast, tensor)};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.broadcast(tensor, src, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                           const OperationOptions& options) {
  constexpr const char* name = "all_gather";
  if (skips_as_non_member(name)) return {};
  require_one_per_rank(description_, name, "outputs", outputs.size());
  for (const Tensor& output : outputs) {
    require_writable(description_, name, output);
    require_same_kind(description_, name, output, input);
  }
  const Tensor& own = outputs[static_cast<std::size_t>(description_.rank)];
  if (own.numel() != input.numel()) {
    reject(description_, name,
           "the input has " + elements(input) + ", the output for this rank " + std::to_string(own.numel()));
  }
  require_disjoint_gather(description_, name, outputs, input);
  const auto describe = [&] { return std::string(name) + "(" + described(outputs) + ")"; };
  const OperationSpec call{name,
                           input.device(),
                           bytes_of(outputs),
                           describe,
                           {page::Operation::all_gather, input.dtype(), input.numel(), elements_of(outputs)}};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.all_gather(outputs, input, operation);
  };
  return run(call, options, start);
}

// One for each rank, in the output.
ShortArray<Tensor> GroupImpl::parts_to_gather(const Tensor& output, const Tensor& input) const {
  constexpr const char* name = "all_gather_into_tensor";
  require_writable(description_, name, output);
  require_same_kind(description_, name, output, input);
  require_whole(description_, name, output, "output", input);
  ShortArray<Tensor> parts = equal_parts(output, static_cast<std::size_t>(description_.size));
  require_disjoint_gather(description_, name, parts, input);
  return parts;
}

GroupImpl::Prepared GroupImpl::prepare_all_gather_into_tensor(const Tensor& output,
                                                              const Tensor& input) const {
  return {"all_gather_into_tensor",
          input.device(),
          output.nbytes(),
          [output] { return all_gather_into_tensor_text(output); },
          {page::Operation::all_gather_into_tensor, input.dtype(), input.numel(), output.numel()},
          [parts = parts_to_gather(output, input), input](Backend& backend, const Operation& operation) {
            return backend.all_gather(parts, input, operation);
          }};
}

Work GroupImpl::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                       const OperationOptions& options) {
  constexpr const char* name = "all_gather_into_tensor";
  if (skips_as_non_member(name)) return {};
  const ShortArray<Tensor> parts = parts_to_gather(output, input);
  const auto describe = [&] { return all_gather_into_tensor_text(output); };
  const OperationSpec call{
      name,
      input.device(),
      output.nbytes(),
      describe,
      {page::Operation::all_gather_into_tensor, input.dtype(), input.numel(), output.numel()}};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.all_gather(parts, input, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::barrier(const OperationOptions& options, std::span<const int> device_ids) {
  if (skips_as_non_member("barrier")) return {};
  std::optional<Device> device;
  for (const int id : device_ids) {
    if (id < 0) reject(description_, "barrier", "device " + std::to_string(id) + " does not exist");
    if (!device) device = Device{Device::Kind::cuda, id};
  }
  const auto describe = [] { return std::string("barrier()"); };
  const OperationSpec call{"barrier", device, 0, describe, {page::Operation::barrier, std::nullopt, 0, 0}};
  const auto start = [](Backend& backend, const Operation& operation) { return backend.barrier(operation); };
  return run(call, options, start);
}

Work GroupImpl::reduce(const Tensor& tensor, int dst, ReduceOp op, const OperationOptions& options) {
  constexpr const char* name = "reduce";
  if (skips_as_non_member(name)) return {};
  require_rank(description_, name, "dst", dst);
  if (dst == description_.rank) require_writable(description_, name, tensor);
  require_allowed(description_, name, tensor, op);
  const Reduction reduction{op, options.premul_factor};
  const auto describe = [&] {
    return std::string(name) + "(" + tensor.to_string() + reduction_text(op) + root("dst", dst) + ")";
  };
  const OperationSpec call{
      name, tensor.device(), tensor.nbytes(), describe, recorded(page::Operation::reduce, tensor), {}, op};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.reduce(tensor, dst, reduction, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                       const OperationOptions& options) {
  constexpr const char* name = "gather";
  if (skips_as_non_member(name)) return {};
  require_rank(description_, name, "dst", dst);
  if (dst == description_.rank) {
    require_one_per_rank(description_, name, "outputs", outputs.size());
  } else if (!outputs.empty()) {
    reject(description_, name, "only rank " + std::to_string(dst) + ", the destination, may give outputs");
  }
  for (const Tensor& output : outputs) {
    require_writable(description_, name, output);
    require_same_kind(description_, name, output, input);
    if (output.numel() != input.numel()) {
      reject(description_, name,
             "an output has " + elements(output) + ", the input " + std::to_string(input.numel()));
    }
  }
  const auto describe = [&] { return std::string(name) + "(" + input.to_string() + root("dst", dst) + ")"; };
  const OperationSpec call{name,
                           input.device(),
                           input.nbytes(),
                           describe,
                           {page::Operation::gather, input.dtype(), input.numel(), elements_of(outputs)}};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.gather(outputs, input, dst, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                        const OperationOptions& options) {
  constexpr const char* name = "scatter";
  if (skips_as_non_member(name)) return {};
  require_rank(description_, name, "src", src);
  require_writable(description_, name, output);
  if (src == description_.rank) {
    require_one_per_rank(description_, name, "inputs", inputs.size());
  } else if (!inputs.empty()) {
    reject(description_, name, "only rank " + std::to_string(src) + ", the source, may give inputs");
  }
  for (const Tensor& input : inputs) {
    require_same_kind(description_, name, output, input);
    if (input.numel() != output.numel()) {
      reject(description_, name,
             "an input has " + elements(input) + ", the output " + std::to_string(output.numel()));
    }
  }
  const auto describe = [&] { return std::string(name) + "(" + output.to_string() + root("src", src) + ")"; };
  const OperationSpec call{name,
                           output.device(),
                           output.nbytes(),
                           describe,
                           {page::Operation::scatter, output.dtype(), elements_of(inputs), output.numel()}};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.scatter(output, inputs, src, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, ReduceOp op,
                               const OperationOptions& options) {
  constexpr const char* name = "reduce_scatter";
  if (skips_as_non_member(name)) return {};
  require_one_per_rank(description_, name, "inputs", inputs.size());
  require_writable(description_, name, output);
  for (const Tensor& input : inputs) require_same_kind(description_, name, output, input);
  require_allowed(description_, name, output, op);
  const Tensor& own = inputs[static_cast<std::size_t>(description_.rank)];
  if (own.numel() != output.numel()) {
    reject(description_, name,
           "the output has " + elements(output) + ", the input for this rank " + std::to_string(own.numel()));
  }
  const Reduction reduction{op, options.premul_factor};
  const auto describe = [&] {
    return std::string(name) + "(" + described(inputs) + reduction_text(op) + ")";
  };
  const OperationSpec call{
      name,
      output.device(),
      bytes_of(inputs),
      describe,
      {page::Operation::reduce_scatter, output.dtype(), elements_of(inputs), output.numel()},
      {},
      op};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.reduce_scatter(output, inputs, reduction, operation);
  };
  return run(call, options, start);
}

// One for each rank, in the input.
ShortArray<Tensor> GroupImpl::parts_to_scatter(const Tensor& output, const Tensor& input, ReduceOp op) const {
  constexpr const char* name = "reduce_scatter_tensor";
  require_writable(description_, name, output);
  require_same_kind(description_, name, output, input);
  require_allowed(description_, name, output, op);
  require_whole(description_, name, input, "input", output);
  return equal_parts(input, static_cast<std::size_t>(description_.size));
}

GroupImpl::Prepared GroupImpl::prepare_reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                                                             const Reduction& reduction) const {
  return {"reduce_scatter_tensor",
          output.device(),
          input.nbytes(),
          [input, op = reduction.op] { return reduce_scatter_tensor_text(input, op); },
          {page::Operation::reduce_scatter_tensor, output.dtype(), input.numel(), output.numel()},
          [output, reduction, parts = parts_to_scatter(output, input, reduction.op)](
              Backend& backend, const Operation& operation) {
            return backend.reduce_scatter(output, parts, reduction, operation);
          },
          reduction.op};
}

Work GroupImpl::reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op,
                                      const OperationOptions& options) {
  constexpr const char* name = "reduce_scatter_tensor";
  if (skips_as_non_member(name)) return {};
  const ShortArray<Tensor> parts = parts_to_scatter(output, input, op);
  const Reduction reduction{op, options.premul_factor};
  const auto describe = [&] { return reduce_scatter_tensor_text(input, op); };
  const OperationSpec call{
      name,
      output.device(),
      input.nbytes(),
      describe,
      {page::Operation::reduce_scatter_tensor, output.dtype(), input.numel(), output.numel()},
      {},
      op};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.reduce_scatter(output, parts, reduction, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                           const OperationOptions& options) {
  constexpr const char* name = "all_to_all";
  if (skips_as_non_member(name)) return {};
  require_one_per_rank(description_, name, "outputs", outputs.size());
  require_one_per_rank(description_, name, "inputs", inputs.size());
  for (const Tensor& output : outputs) {
    require_writable(description_, name, output);
    require_same_kind(description_, name, output, inputs.front());
  }
  for (const Tensor& input : inputs) require_same_kind(description_, name, outputs.front(), input);
  const std::size_t rank = static_cast<std::size_t>(description_.rank);
  if (outputs[rank].numel() != inputs[rank].numel()) {
    reject(description_, name,
           "this rank sends itself " + elements(inputs[rank]) + " and expects " +
               std::to_string(outputs[rank].numel()));
  }
  require_disjoint(description_, name, outputs, inputs);
  const auto describe = [&] {
    return std::string(name) + "(" + std::string(to_string(inputs.front().dtype())) + ")";
  };
  const auto splits = [&] { return splits_text(outputs, inputs); };
  const OperationSpec call{
      name,
      inputs.front().device(),
      bytes_of(inputs),
      describe,
      {page::Operation::all_to_all, inputs.front().dtype(), elements_of(inputs), elements_of(outputs)},
      splits};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.all_to_all(outputs, inputs, operation);
  };
  return run(call, options, start);
}

Work GroupImpl::all_to_all_single(const Tensor& output, const Tensor& input,
                                  std::span<const std::int64_t> output_splits,
                                  std::span<const std::int64_t> input_splits,
                                  const OperationOptions& options) {
  constexpr const char* name = "all_to_all_single";
  if (skips_as_non_member(name)) return {};
  require_writable(description_, name, output);
  require_same_kind(description_, name, output, input);
  const ShortArray<Tensor> outputs = split_rows(description_, name, "output", output, output_splits);
  const ShortArray<Tensor> inputs = split_rows(description_, name, "input", input, input_splits);
  const std::size_t rank = static_cast<std::size_t>(description_.rank);
  if (outputs[rank].numel() != inputs[rank].numel()) {
    reject(description_, name,
           "this rank sends itself " + elements(inputs[rank]) + " and expects " +
               std::to_string(outputs[rank].numel()));
  }
  require_disjoint(description_, name, {&output, 1}, {&input, 1});
  const auto describe = [&] { return std::string(name) + "(" + std::string(to_string(input.dtype())) + ")"; };
  const auto splits = [&] { return splits_text(outputs, inputs); };
  const OperationSpec call{name,
                           input.device(),
                           input.nbytes(),
                           describe,
                           {page::Operation::all_to_all_single, input.dtype(), input.numel(), output.numel()},
                           splits};
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.all_to_all(outputs, inputs, operation);
  };
  return run(call, options, start);
}

GroupImpl::Prepared GroupImpl::prepare_all_reduce_coalesced(std::vector<Tensor> tensors,
                                                            const Reduction& reduction) const {
  constexpr const char* name = "all_reduce_coalesced";
  if (tensors.empty()) reject(description_, name, "the list of tensors is empty");
  for (const Tensor& tensor : tensors) require_writable(description_, name, tensor);
  require_one_kind(description_, name, tensors);
  const Tensor first = tensors.front();
  require_allowed(description_, name, first, reduction.op);
  const std::uint64_t bytes = bytes_of(tensors);
  const std::uint64_t count = elements_of(tensors);
  const auto shared = std::make_shared<const std::vector<Tensor>>(std::move(tensors));
  return {name,
          first.device(),
          bytes,
          [shared, op = reduction.op] {
            return std::string(name) + "(" + described(*shared) + reduction_text(op) + ")";
          },
          {page::Operation::all_reduce_coalesced, first.dtype(), count, count},
          [shared, reduction](Backend& backend, const Operation& operation) {
            return backend.all_reduce_coalesced(*shared, reduction, operation);
          },
          reduction.op};
}

Work GroupImpl::all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op,
                                     const OperationOptions& options) {
  if (skips_as_non_member("all_reduce_coalesced")) return {};
  const Prepared prepared =
      prepare_all_reduce_coalesced({tensors.begin(), tensors.end()}, {op, options.premul_factor});
  return run(prepared.spec(), options, prepared.start);
}

// The coalesced forms.
Work GroupImpl::run_pairs(const char* operation, std::span<const Tensor> outputs,
                          std::span<const Tensor> inputs, const OperationOptions& options,
                          const std::function<Prepared(const Tensor& output, const Tensor& input)>& prepare) {
  if (skips_as_non_member(operation)) return {};
  if (outputs.size() != inputs.size()) {
    reject(description_, operation,
           std::to_string(outputs.size()) + " outputs and " + std::to_string(inputs.size()) +
               " inputs: the numbers must be equal");
  }
  require_one_kind(description_, operation, inputs);
  std::vector<Prepared> all;
  all.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) all.push_back(prepare(outputs[i], inputs[i]));
  return run_together(operation, all, options);
}

Work GroupImpl::all_gather_into_tensor_coalesced(std::span<const Tensor> outputs,
                                                 std::span<const Tensor> inputs,
                                                 const OperationOptions& options) {
  return run_pairs("all_gather_into_tensor_coalesced", outputs, inputs, options,
                   [this](const Tensor& output, const Tensor& input) {
                     return prepare_all_gather_into_tensor(output, input);
                   });
}

Work GroupImpl::reduce_scatter_tensor_coalesced(std::span<const Tensor> outputs,
                                                std::span<const Tensor> inputs, ReduceOp op,
                                                const OperationOptions& options) {
  return run_pairs(
      "reduce_scatter_tensor_coalesced", outputs, inputs, options,
      [this, reduction = Reduction{op, options.premul_factor}](const Tensor& output, const Tensor& input) {
        return prepare_reduce_scatter_tensor(output, input, reduction);
      });
}

Work GroupImpl::run_together(const char* name, std::span<const Prepared> all,
                             const OperationOptions& options) {
  if (skips_as_non_member(name)) return {};
  (void)timeout_for(name, options.timeout);
  (void)usable_backend(name, std::nullopt);
  Together together_started;
  for (const Prepared& one : all) {
    const std::shared_ptr<Backend> backend = usable_backend(one.name, one.device);
    require_offered(*backend, one.name, one.spec().subject());
    together_started.add(backend);
  }
  OperationOptions each = options;
  each.async_op = true;
  std::vector<Work> works;
  works.reserve(all.size());
  try {
    together_started.begin();
    for (const Prepared& one : all) works.push_back(run(one.spec(), each, one.start));
    together_started.end();
  } catch (...) {
    together_started.give_up();
    wait_all_noexcept(works);
    throw;
  }
  Work together = when_all(works);
  if (options.async_op) return together;
  together.wait();
  return {};
}

}  // namespace dlaunch::internal
