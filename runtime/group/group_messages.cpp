// The messages of a group: each checks its arguments and calls the backend.
#include "dlaunch/error.h"
#include "runtime/group/argument_checks.h"
#include "runtime/group/group_impl.h"
#include "runtime/group/together.h"
#include "runtime/group/when_all.h"

namespace dlaunch::internal {

Work GroupImpl::isend(const Tensor& tensor, int dst, const MessageOptions& options, Tags tags, bool awaited) {
  if (skips_as_non_member("send")) return {};
  require_message(description_, "send", tensor, dst, false);
  const auto describe = [] { return std::string("send"); };
  const OperationSpec call{"send",
                           tensor.device(),
                           tensor.nbytes(),
                           describe,
                           {page::Operation::send, tensor.dtype(), tensor.numel(), 0}};
  const Tag tag = tag_of(tags, options.tag);
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.send(tensor, dst, tag, operation);
  };
  return run_message(call, dst, tag, options, awaited, start);
}

Work GroupImpl::irecv(const Tensor& tensor, int src, const MessageOptions& options, Tags tags, bool awaited) {
  if (skips_as_non_member("recv")) return {};
  require_message(description_, "recv", tensor, src, true);
  const auto describe = [] { return std::string("recv"); };
  const OperationSpec call{"recv",
                           tensor.device(),
                           tensor.nbytes(),
                           describe,
                           {page::Operation::recv, tensor.dtype(), 0, tensor.numel()}};
  const Tag tag = tag_of(tags, options.tag);
  const auto start = [&](Backend& backend, const Operation& operation) {
    return backend.recv(tensor, src, tag, operation);
  };
  return run_message(call, src, tag, options, awaited, start);
}

std::vector<Work> GroupImpl::batch_isend_irecv(std::span<const P2POp> ops) {
  constexpr const char* name = "batch_isend_irecv";
  const auto group_of = [this](const P2POp& op) -> GroupImpl& { return op.group ? of(op.group) : *this; };
  if (ops.empty() && !skips_as_non_member(name)) (void)usable_backend(name, std::nullopt);
  Together together;
  for (const P2POp& op : ops) {
    GroupImpl& group = group_of(op);
    if (group.skips_as_non_member(name)) continue;
    (void)group.usable_backend(name, std::nullopt);
    require_message(group.description(), name, op.tensor, op.peer, op.kind == P2POp::Kind::irecv);
    const std::shared_ptr<Backend> backend = group.usable_backend(name, op.tensor.device());
    group.require_offered(
        *backend, name,
        subject_of_message(op.tensor.dtype(), op.tensor.device(), tag_of(Tags::program, op.tag), op.peer));
    together.add(backend);
  }
  std::vector<Work> works;
  works.reserve(ops.size());
  try {
    together.begin();
    for (const P2POp& op : ops) {
      const MessageOptions options{.tag = op.tag, .timeout = std::nullopt};
      GroupImpl& group = group_of(op);
      works.push_back(op.kind == P2POp::Kind::isend ? group.isend(op.tensor, op.peer, options)
                                                    : group.irecv(op.tensor, op.peer, options));
    }
    together.end();
  } catch (...) {
    together.give_up();
    wait_all_noexcept(works);
    throw;
  }
  return works;
}

}  // namespace dlaunch::internal
