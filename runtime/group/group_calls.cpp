// The calls of a group: what their arguments must be, and what the backend is asked for.
#include <algorithm>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/log.h"
#include "runtime/group/aliasing.h"
#include "runtime/group/group_impl.h"
#include "runtime/group/splits.h"
#include "runtime/group/when_all.h"
#include "runtime/reduce/reduce.h"
#include "runtime/rendezvous/rendezvous.h"

namespace dlaunch {
inline namespace v1 {

namespace {

// `count` elements of the tensor from element `begin` on.
Tensor slice(const Tensor& whole, std::size_t begin, std::size_t count) {
  std::byte* const data = static_cast<std::byte*>(whole.data()) + begin * size_of(whole.dtype());
  const std::int64_t extent = static_cast<std::int64_t>(count);
  if (whole.read_only()) {
    return Tensor(static_cast<const void*>(data), whole.dtype(), std::span(&extent, 1), whole.device());
  }
  return Tensor(static_cast<void*>(data), whole.dtype(), std::span(&extent, 1), whole.device());
}

std::vector<Tensor> equal_parts(const Tensor& whole, std::size_t parts) {
  std::vector<Tensor> result;
  const std::size_t each = whole.numel() / parts;
  for (std::size_t i = 0; i < parts; ++i) result.push_back(slice(whole, i * each, each));
  return result;
}

std::uint64_t bytes_of(std::span<const Tensor> tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.nbytes();
  return sum;
}

std::uint64_t elements_of(std::span<const Tensor> tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.numel();
  return sum;
}

// Of one whose output takes the input's place.
GroupRecorder::What recorded(page::Operation operation, const Tensor& tensor) {
  return {operation, tensor.dtype(), tensor.numel(), tensor.numel()};
}

// "float32[2, 3] on cpu" and such, in the words of an argument list.
std::string described(std::span<const Tensor> tensors) {
  std::string text = "[";
  for (const Tensor& tensor : tensors) text += (text.size() > 1 ? ", " : "") + tensor.to_string();
  return text + "]";
}

std::string root(const char* role, int rank) { return std::string(", ") + role + " " + std::to_string(rank); }

std::string reduction_text(ReduceOp op) { return ", " + std::string(to_string(op)); }

std::string elements(const Tensor& tensor) { return std::to_string(tensor.numel()) + " elements"; }

}  // namespace

void GroupImpl::refuse(const char* operation, const std::string& reason) const {
  throw DistError(reason, {.rank = description_.rank, .operation = operation, .group = description_.name});
}

void GroupImpl::require_member(const char* operation) const {
  if (description_.rank < 0) refuse(operation, "this process is not a member of the group");
}

bool GroupImpl::skips_as_non_member(const char* operation) {
  if (description_.rank >= 0) return false;
  if (!non_member_warned_.test_and_set() && logs(LogLevel::warning)) {
    log(LogLevel::warning,
        "rank " + std::to_string(description_.global_rank) + " called " + operation + " on group " +
            description_.name + " (" + describe_ranks(description_.ranks) +
            "), of which it is not a member: the call does nothing, as any other of this rank "
            "on that group");
  }
  return true;
}

void GroupImpl::require_rank(const char* operation, const char* role, int rank) const {
  require_member(operation);
  if (rank >= 0 && rank < description_.size) return;
  refuse(operation, std::string(role) + " " + std::to_string(rank) + " is no rank of a group of " +
                        std::to_string(description_.size));
}

void GroupImpl::require_writable(const char* operation, const Tensor& tensor) const {
  if (tensor.read_only() && tensor.numel() > 0)
    refuse(operation, "the tensor to write to is a view of const memory");
}

void GroupImpl::require_same_kind(const char* operation, const Tensor& output, const Tensor& input) const {
  if (output.dtype() != input.dtype() || output.device() != input.device()) {
    refuse(operation,
           "output and input differ in dtype or device: " + output.to_string() + " and " + input.to_string());
  }
}

void GroupImpl::require_one_kind(const char* operation, std::span<const Tensor> tensors) const {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() == tensors.front().dtype() && tensor.device() == tensors.front().device()) continue;
    refuse(operation, "the tensors differ in dtype or device: " + tensors.front().to_string() + " and " +
                          tensor.to_string());
  }
}

void GroupImpl::require_allowed(const char* operation, const Tensor& tensor, ReduceOp op) const {
  if (const auto why = why_not_allowed(tensor.dtype(), op)) refuse(operation, *why);
}

void GroupImpl::require_one_per_rank(const char* operation, const char* role, std::size_t count) const {
  if (count == static_cast<std::size_t>(description_.size)) return;
  refuse(operation,
         std::to_string(count) + " " + role + " for " + std::to_string(description_.size) + " ranks");
}

// `whole` is one part for each rank.
void GroupImpl::require_whole(const char* operation, const Tensor& whole, const char* whole_role,
                              const Tensor& part) const {
  const std::size_t size = static_cast<std::size_t>(description_.size);
  if (whole.numel() == size * part.numel()) return;
  refuse(operation, "the " + std::string(whole_role) + " has " + elements(whole) + "; " +
                        std::to_string(size) + " ranks with " + std::to_string(part.numel()) + " each need " +
                        std::to_string(size * part.numel()));
}

void GroupImpl::require_apart(const char* operation, std::span<const Tensor> outputs,
                              std::span<const Tensor> inputs) const {
  if (aliases(outputs, inputs))
    refuse(operation, "an output shares memory with another one or with an input");
}

// The input may be the own output.
void GroupImpl::require_gathered_apart(const char* operation, std::span<const Tensor> outputs,
                                       const Tensor& input) const {
  const bool in_place = input.data() == outputs[static_cast<std::size_t>(description_.rank)].data();
  require_apart(operation, outputs, in_place ? std::span<const Tensor>() : std::span(&input, 1));
}

Work GroupImpl::all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options) {
  constexpr const char* name = "all_reduce";
  if (skips_as_non_member(name)) return {};
  require_writable(name, tensor);
  require_allowed(name, tensor, op);
  const Reduction reduction{op, options.premul_factor};
  const OperationSpec call{
      name, tensor.device(), tensor.nbytes(),
      [&] { return std::string(name) + "(" + tensor.to_string() + reduction_text(op) + ")"; },
      recorded(page::Operation::all_reduce, tensor)};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.all_reduce(tensor, reduction, operation);
  });
}

Work GroupImpl::broadcast(const Tensor& tensor, int src, const OperationOptions& options) {
  constexpr const char* name = "broadcast";
  if (skips_as_non_member(name)) return {};
  require_rank(name, "src", src);
  if (src != description_.rank) require_writable(name, tensor);
  const OperationSpec call{
      name, tensor.device(), tensor.nbytes(),
      [&] { return std::string(name) + "(" + tensor.to_string() + root("src", src) + ")"; },
      recorded(page::Operation::broadcast, tensor)};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.broadcast(tensor, src, operation);
  });
}

Work GroupImpl::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                           const OperationOptions& options) {
  constexpr const char* name = "all_gather";
  if (skips_as_non_member(name)) return {};
  require_one_per_rank(name, "outputs", outputs.size());
  for (const Tensor& output : outputs) {
    require_writable(name, output);
    require_same_kind(name, output, input);
  }
  const Tensor& own = outputs[static_cast<std::size_t>(description_.rank)];
  if (own.numel() != input.numel()) {
    refuse(name,
           "the input has " + elements(input) + ", the output for this rank " + std::to_string(own.numel()));
  }
  require_gathered_apart(name, outputs, input);
  const OperationSpec call{name,
                           input.device(),
                           bytes_of(outputs),
                           [&] { return std::string(name) + "(" + described(outputs) + ")"; },
                           {page::Operation::all_gather, input.dtype(), input.numel(), elements_of(outputs)}};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.all_gather(outputs, input, operation);
  });
}

GroupImpl::Prepared GroupImpl::prepare_all_gather_into_tensor(const Tensor& output,
                                                              const Tensor& input) const {
  constexpr const char* name = "all_gather_into_tensor";
  require_writable(name, output);
  require_same_kind(name, output, input);
  require_whole(name, output, "output", input);
  std::vector<Tensor> parts = equal_parts(output, static_cast<std::size_t>(description_.size));
  require_gathered_apart(name, parts, input);
  return {{name,
           input.device(),
           output.nbytes(),
           [output] { return std::string(name) + "(" + output.to_string() + ")"; },
           {page::Operation::all_gather_into_tensor, input.dtype(), input.numel(), output.numel()}},
          [parts = std::move(parts), input](Backend& backend, const Operation& operation) {
            return backend.all_gather(parts, input, operation);
          }};
}

Work GroupImpl::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                       const OperationOptions& options) {
  if (skips_as_non_member("all_gather_into_tensor")) return {};
  const Prepared prepared = prepare_all_gather_into_tensor(output, input);
  return run(prepared.call, options, prepared.start);
}

Work GroupImpl::barrier(const OperationOptions& options, std::span<const int> device_ids) {
  if (skips_as_non_member("barrier")) return {};
  std::optional<Device> device;
  for (const int id : device_ids) {
    if (id < 0) refuse("barrier", "device " + std::to_string(id) + " is none");
    if (!device) device = Device{Device::Kind::cuda, id};
  }
  const OperationSpec call{"barrier",
                           device,
                           0,
                           [] { return std::string("barrier()"); },
                           {page::Operation::barrier, std::nullopt, 0, 0}};
  return run(call, options,
             [](Backend& backend, const Operation& operation) { return backend.barrier(operation); });
}

Work GroupImpl::reduce(const Tensor& tensor, int dst, ReduceOp op, const OperationOptions& options) {
  constexpr const char* name = "reduce";
  if (skips_as_non_member(name)) return {};
  require_rank(name, "dst", dst);
  if (dst == description_.rank) require_writable(name, tensor);
  require_allowed(name, tensor, op);
  const Reduction reduction{op, options.premul_factor};
  const OperationSpec call{name, tensor.device(), tensor.nbytes(),
                           [&] {
                             return std::string(name) + "(" + tensor.to_string() + reduction_text(op) +
                                    root("dst", dst) + ")";
                           },
                           recorded(page::Operation::reduce, tensor)};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.reduce(tensor, dst, reduction, operation);
  });
}

Work GroupImpl::gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
                       const OperationOptions& options) {
  constexpr const char* name = "gather";
  if (skips_as_non_member(name)) return {};
  require_rank(name, "dst", dst);
  if (dst == description_.rank) {
    require_one_per_rank(name, "outputs", outputs.size());
  } else if (!outputs.empty()) {
    refuse(name, "only rank " + std::to_string(dst) + ", the destination, may give outputs");
  }
  for (const Tensor& output : outputs) {
    require_writable(name, output);
    require_same_kind(name, output, input);
    if (output.numel() != input.numel()) {
      refuse(name, "an output has " + elements(output) + ", the input " + std::to_string(input.numel()));
    }
  }
  const OperationSpec call{
      name,
      input.device(),
      input.nbytes(),
      [&] { return std::string(name) + "(" + input.to_string() + root("dst", dst) + ")"; },
      {page::Operation::gather, input.dtype(), input.numel(), elements_of(outputs)}};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.gather(outputs, input, dst, operation);
  });
}

Work GroupImpl::scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
                        const OperationOptions& options) {
  constexpr const char* name = "scatter";
  if (skips_as_non_member(name)) return {};
  require_rank(name, "src", src);
  require_writable(name, output);
  if (src == description_.rank) {
    require_one_per_rank(name, "inputs", inputs.size());
  } else if (!inputs.empty()) {
    refuse(name, "only rank " + std::to_string(src) + ", the source, may give inputs");
  }
  for (const Tensor& input : inputs) {
    require_same_kind(name, output, input);
    if (input.numel() != output.numel()) {
      refuse(name, "an input has " + elements(input) + ", the output " + std::to_string(output.numel()));
    }
  }
  const OperationSpec call{
      name,
      output.device(),
      output.nbytes(),
      [&] { return std::string(name) + "(" + output.to_string() + root("src", src) + ")"; },
      {page::Operation::scatter, output.dtype(), elements_of(inputs), output.numel()}};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.scatter(output, inputs, src, operation);
  });
}

Work GroupImpl::reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, ReduceOp op,
                               const OperationOptions& options) {
  constexpr const char* name = "reduce_scatter";
  if (skips_as_non_member(name)) return {};
  require_one_per_rank(name, "inputs", inputs.size());
  require_writable(name, output);
  for (const Tensor& input : inputs) require_same_kind(name, output, input);
  require_allowed(name, output, op);
  const Tensor& own = inputs[static_cast<std::size_t>(description_.rank)];
  if (own.numel() != output.numel()) {
    refuse(name,
           "the output has " + elements(output) + ", the input for this rank " + std::to_string(own.numel()));
  }
  const Reduction reduction{op, options.premul_factor};
  const OperationSpec call{
      name,
      output.device(),
      bytes_of(inputs),
      [&] { return std::string(name) + "(" + described(inputs) + reduction_text(op) + ")"; },
      {page::Operation::reduce_scatter, output.dtype(), elements_of(inputs), output.numel()}};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.reduce_scatter(output, inputs, reduction, operation);
  });
}

GroupImpl::Prepared GroupImpl::prepare_reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                                                             const Reduction& reduction) const {
  constexpr const char* name = "reduce_scatter_tensor";
  require_writable(name, output);
  require_same_kind(name, output, input);
  require_allowed(name, output, reduction.op);
  require_whole(name, input, "input", output);
  return {{name,
           output.device(),
           input.nbytes(),
           [input, op = reduction.op] {
             return std::string(name) + "(" + input.to_string() + reduction_text(op) + ")";
           },
           {page::Operation::reduce_scatter_tensor, output.dtype(), input.numel(), output.numel()}},
          [output, reduction, parts = equal_parts(input, static_cast<std::size_t>(description_.size))](
              Backend& backend, const Operation& operation) {
            return backend.reduce_scatter(output, parts, reduction, operation);
          }};
}

Work GroupImpl::reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op,
                                      const OperationOptions& options) {
  if (skips_as_non_member("reduce_scatter_tensor")) return {};
  const Prepared prepared = prepare_reduce_scatter_tensor(output, input, {op, options.premul_factor});
  return run(prepared.call, options, prepared.start);
}

Work GroupImpl::all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                           const OperationOptions& options) {
  constexpr const char* name = "all_to_all";
  if (skips_as_non_member(name)) return {};
  require_one_per_rank(name, "outputs", outputs.size());
  require_one_per_rank(name, "inputs", inputs.size());
  for (const Tensor& output : outputs) {
    require_writable(name, output);
    require_same_kind(name, output, inputs.front());
  }
  for (const Tensor& input : inputs) require_same_kind(name, outputs.front(), input);
  const std::size_t rank = static_cast<std::size_t>(description_.rank);
  if (outputs[rank].numel() != inputs[rank].numel()) {
    refuse(name, "this rank sends itself " + elements(inputs[rank]) + " and expects " +
                     std::to_string(outputs[rank].numel()));
  }
  require_apart(name, outputs, inputs);
  const OperationSpec call{
      name,
      inputs.front().device(),
      bytes_of(inputs),
      [&] { return std::string(name) + "(" + std::string(to_string(inputs.front().dtype())) + ")"; },
      {page::Operation::all_to_all, inputs.front().dtype(), elements_of(inputs), elements_of(outputs)},
      [&] { return splits_text(outputs, inputs); }};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.all_to_all(outputs, inputs, operation);
  });
}

// The tensor cut along its first dimension. No splits: one equal part for each rank.
std::vector<Tensor> GroupImpl::rows(const char* operation, const char* role, const Tensor& tensor,
                                    std::span<const std::int64_t> splits) const {
  const std::size_t size = static_cast<std::size_t>(description_.size);
  if (tensor.shape().empty()) refuse(operation, "a tensor without dimensions cannot be cut");
  const std::int64_t all_rows = tensor.shape().front();
  if (splits.empty()) {
    if (all_rows % description_.size != 0) {
      refuse(operation, "the " + std::string(role) + "'s " + std::to_string(all_rows) +
                            " rows cannot be divided among " + std::to_string(size) + " ranks");
    }
    return equal_parts(tensor, size);
  }
  require_one_per_rank(operation, "splits", splits.size());
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    if (split < 0 || split > all_rows - sum) {
      refuse(operation, "the " + std::string(role) + " splits do not add up to its " +
                            std::to_string(all_rows) + " rows");
    }
    sum += split;
  }
  if (sum != all_rows) {
    refuse(operation, "the " + std::string(role) + " splits add up to " + std::to_string(sum) +
                          ", not to its " + std::to_string(all_rows) + " rows");
  }
  const std::size_t row = all_rows == 0 ? 0 : tensor.numel() / static_cast<std::size_t>(all_rows);
  std::vector<Tensor> parts;
  std::size_t begin = 0;
  for (const std::int64_t split : splits) {
    const std::size_t count = static_cast<std::size_t>(split) * row;
    parts.push_back(slice(tensor, begin, count));
    begin += count;
  }
  return parts;
}

Work GroupImpl::all_to_all_single(const Tensor& output, const Tensor& input,
                                  std::span<const std::int64_t> output_splits,
                                  std::span<const std::int64_t> input_splits,
                                  const OperationOptions& options) {
  constexpr const char* name = "all_to_all_single";
  if (skips_as_non_member(name)) return {};
  require_writable(name, output);
  require_same_kind(name, output, input);
  const std::vector<Tensor> outputs = rows(name, "output", output, output_splits);
  const std::vector<Tensor> inputs = rows(name, "input", input, input_splits);
  const std::size_t rank = static_cast<std::size_t>(description_.rank);
  if (outputs[rank].numel() != inputs[rank].numel()) {
    refuse(name, "this rank sends itself " + elements(inputs[rank]) + " and expects " +
                     std::to_string(outputs[rank].numel()));
  }
  require_apart(name, {&output, 1}, {&input, 1});
  const OperationSpec call{
      name,
      input.device(),
      input.nbytes(),
      [&] { return std::string(name) + "(" + std::string(to_string(input.dtype())) + ")"; },
      {page::Operation::all_to_all_single, input.dtype(), input.numel(), output.numel()},
      [&] { return splits_text(outputs, inputs); }};
  return run(call, options, [&](Backend& backend, const Operation& operation) {
    return backend.all_to_all(outputs, inputs, operation);
  });
}

GroupImpl::Prepared GroupImpl::prepare_all_reduce_coalesced(std::vector<Tensor> tensors,
                                                            const Reduction& reduction) const {
  constexpr const char* name = "all_reduce_coalesced";
  if (tensors.empty()) refuse(name, "there is no tensor");
  for (const Tensor& tensor : tensors) require_writable(name, tensor);
  require_one_kind(name, tensors);
  const Tensor first = tensors.front();
  require_allowed(name, first, reduction.op);
  const std::uint64_t bytes = bytes_of(tensors);
  const std::uint64_t count = elements_of(tensors);
  const auto shared = std::make_shared<const std::vector<Tensor>>(std::move(tensors));
  return {{name,
           first.device(),
           bytes,
           [shared, op = reduction.op] {
             return std::string(name) + "(" + described(*shared) + reduction_text(op) + ")";
           },
           {page::Operation::all_reduce_coalesced, first.dtype(), count, count}},
          [shared, reduction](Backend& backend, const Operation& operation) {
            return backend.all_reduce_coalesced(*shared, reduction, operation);
          }};
}

Work GroupImpl::all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op,
                                     const OperationOptions& options) {
  if (skips_as_non_member("all_reduce_coalesced")) return {};
  const Prepared prepared =
      prepare_all_reduce_coalesced({tensors.begin(), tensors.end()}, {op, options.premul_factor});
  return run(prepared.call, options, prepared.start);
}

// The coalesced forms.
Work GroupImpl::run_pairs(const char* operation, std::span<const Tensor> outputs,
                          std::span<const Tensor> inputs, const OperationOptions& options,
                          const std::function<Prepared(const Tensor& output, const Tensor& input)>& prepare) {
  if (skips_as_non_member(operation)) return {};
  if (outputs.size() != inputs.size()) {
    refuse(operation, std::to_string(outputs.size()) + " outputs and " + std::to_string(inputs.size()) +
                          " inputs: there must be as many of both");
  }
  require_one_kind(operation, inputs);
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

void GroupImpl::check_message(const char* operation, const Tensor& tensor, int peer, bool receives) const {
  if (!receives || peer != any_source) require_rank(operation, receives ? "src" : "dst", peer);
  if (receives) require_writable(operation, tensor);
}

Work GroupImpl::isend(const Tensor& tensor, int dst, const MessageOptions& options, Tags tags) {
  if (skips_as_non_member("send")) return {};
  check_message("send", tensor, dst, false);
  const OperationSpec call{"send",
                           tensor.device(),
                           tensor.nbytes(),
                           [] { return std::string("send"); },
                           {page::Operation::send, tensor.dtype(), tensor.numel(), 0}};
  return run_message(call, dst, options, [&](Backend& backend, const Operation& operation) {
    return backend.send(tensor, dst, tag_of(tags, options.tag), operation);
  });
}

Work GroupImpl::irecv(const Tensor& tensor, int src, const MessageOptions& options, Tags tags) {
  if (skips_as_non_member("recv")) return {};
  check_message("recv", tensor, src, true);
  const OperationSpec call{"recv",
                           tensor.device(),
                           tensor.nbytes(),
                           [] { return std::string("recv"); },
                           {page::Operation::recv, tensor.dtype(), 0, tensor.numel()}};
  return run_message(call, src, options, [&](Backend& backend, const Operation& operation) {
    return backend.recv(tensor, src, tag_of(tags, options.tag), operation);
  });
}

std::vector<Work> GroupImpl::batch_isend_irecv(std::span<const P2POp> ops) {
  constexpr const char* name = "batch_isend_irecv";
  const auto group_of = [this](const P2POp& op) -> GroupImpl& { return op.group ? of(op.group) : *this; };
  if (ops.empty() && !skips_as_non_member(name)) (void)usable_backend(name, std::nullopt);
  for (const P2POp& op : ops) {
    GroupImpl& group = group_of(op);
    if (group.skips_as_non_member(name)) continue;
    (void)group.usable_backend(name, std::nullopt);
    group.check_message(name, op.tensor, op.peer, op.kind == P2POp::Kind::irecv);
    (void)group.usable_backend(name, op.tensor.device());
  }
  std::vector<Work> works;
  works.reserve(ops.size());
  try {
    for (const P2POp& op : ops) {
      const MessageOptions options{.tag = op.tag, .timeout = std::nullopt};
      GroupImpl& group = group_of(op);
      works.push_back(op.kind == P2POp::Kind::isend ? group.isend(op.tensor, op.peer, options)
                                                    : group.irecv(op.tensor, op.peer, options));
    }
  } catch (...) {
    wait_all_noexcept(works);
    throw;
  }
  return works;
}

}  // namespace v1
}  // namespace dlaunch
