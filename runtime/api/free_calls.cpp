// The calls of distributed.h that forward to a group, with ranks of the default group.
#include <algorithm>
#include <optional>

#include "dlaunch/distributed.h"
#include "runtime/group/world.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

namespace {

// The given group, or the default group, which lives at least as long as this object.
class CalledGroup {
 public:
  explicit CalledGroup(const ProcessGroup& given) : group_(&given) {
    if (given) return;
    group_ = default_.emplace(world().group_of_calls()).get();
    if (group_ == nullptr) World::throw_uninitialized();
  }

  [[nodiscard]] const ProcessGroup& handle() const { return *group_; }
  GroupImpl* operator->() const { return &GroupImpl::of(*group_); }
  [[nodiscard]] const GroupDescription& description() const { return (*this)->description(); }

 private:
  const ProcessGroup* group_;
  std::optional<HazardPointer<const ProcessGroup>::Use> default_;
};

// The rank in the group, for an operation.
int rank_in(const CalledGroup& called, const char* operation, int global_rank) {
  const GroupDescription& group = called.description();
  const auto same = static_cast<std::size_t>(global_rank);
  if (same < group.ranks.size() && group.ranks[same] == global_rank)
    return global_rank;  // as in the default group
  const auto found = std::ranges::find(group.ranks, global_rank);
  if (found == group.ranks.end()) {
    throw DistError("rank " + std::to_string(global_rank) + " is not a member of group " + group.name,
                    {.rank = group.rank, .operation = operation, .group = group.name});
  }
  return static_cast<int>(found - group.ranks.begin());
}

// The same for a root or a peer; a process that is not a member does not check it.
int peer_in(const CalledGroup& group, const char* operation, int global_rank) {
  return group.description().rank < 0 ? global_rank : rank_in(group, operation, global_rank);
}

int source_in(const CalledGroup& group, const char* operation, int global_rank) {
  return global_rank == any_source ? any_source : peer_in(group, operation, global_rank);
}

}  // namespace

int get_group_rank(const ProcessGroup& group, int global_rank) {
  return rank_in(CalledGroup(group), "", global_rank);
}

int get_global_rank(const ProcessGroup& given, int group_rank) {
  const CalledGroup called(given);
  const GroupDescription& group = called.description();
  if (group_rank < 0 || static_cast<std::size_t>(group_rank) >= group.ranks.size()) {
    throw DistError("rank " + std::to_string(group_rank) + " is out of range for a group of " +
                        std::to_string(group.ranks.size()) + " ranks",
                    {.rank = group.rank, .group = group.name});
  }
  return group.ranks[static_cast<std::size_t>(group_rank)];
}

std::vector<int> get_process_group_ranks(const ProcessGroup& group) {
  return CalledGroup(group).description().ranks;
}

SharedMemory allocate_shared(std::size_t bytes, const ProcessGroup& group) {
  return CalledGroup(group)->allocate_shared(bytes);
}
Work all_reduce(const Tensor& tensor, ReduceOp op, const CollectiveOptions& options) {
  return CalledGroup(options.group)->all_reduce(tensor, op, options);
}
Work broadcast(const Tensor& tensor, int src, const CollectiveOptions& options) {
  const CalledGroup group(options.group);
  return group->broadcast(tensor, peer_in(group, "broadcast", src), options);
}
Work all_gather(std::span<const Tensor> outputs, const Tensor& input, const CollectiveOptions& options) {
  return CalledGroup(options.group)->all_gather(outputs, input, options);
}
Work all_gather_into_tensor(const Tensor& output, const Tensor& input, const CollectiveOptions& options) {
  return CalledGroup(options.group)->all_gather_into_tensor(output, input, options);
}
Work barrier(const CollectiveOptions& options) {
  return CalledGroup(options.group)->barrier(options, options.device_ids);
}
void monitored_barrier(std::optional<std::chrono::milliseconds> timeout, bool wait_all_ranks,
                       const ProcessGroup& group) {
  CalledGroup(group)->monitored_barrier(timeout, wait_all_ranks);
}
void breakpoint(int rank, const ProcessGroup& given) {
  const CalledGroup group(given);
  group->breakpoint(rank_in(group, "breakpoint", rank));
}
Work reduce(const Tensor& tensor, int dst, ReduceOp op, const CollectiveOptions& options) {
  const CalledGroup group(options.group);
  return group->reduce(tensor, peer_in(group, "reduce", dst), op, options);
}
Work gather(std::span<const Tensor> outputs, const Tensor& input, int dst, const CollectiveOptions& options) {
  const CalledGroup group(options.group);
  return group->gather(outputs, input, peer_in(group, "gather", dst), options);
}
Work scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
             const CollectiveOptions& options) {
  const CalledGroup group(options.group);
  return group->scatter(output, inputs, peer_in(group, "scatter", src), options);
}
Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, ReduceOp op,
                    const CollectiveOptions& options) {
  return CalledGroup(options.group)->reduce_scatter(output, inputs, op, options);
}
Work reduce_scatter_tensor(const Tensor& output, const Tensor& input, ReduceOp op,
                           const CollectiveOptions& options) {
  return CalledGroup(options.group)->reduce_scatter_tensor(output, input, op, options);
}
Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                const CollectiveOptions& options) {
  return CalledGroup(options.group)->all_to_all(outputs, inputs, options);
}
Work all_to_all_single(const Tensor& output, const Tensor& input, std::span<const std::int64_t> output_splits,
                       std::span<const std::int64_t> input_splits, const CollectiveOptions& options) {
  return CalledGroup(options.group)->all_to_all_single(output, input, output_splits, input_splits, options);
}
Work all_reduce_coalesced(std::span<const Tensor> tensors, ReduceOp op, const CollectiveOptions& options) {
  return CalledGroup(options.group)->all_reduce_coalesced(tensors, op, options);
}
Work all_gather_into_tensor_coalesced(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                      const CollectiveOptions& options) {
  return CalledGroup(options.group)->all_gather_into_tensor_coalesced(outputs, inputs, options);
}
Work reduce_scatter_tensor_coalesced(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                     ReduceOp op, const CollectiveOptions& options) {
  return CalledGroup(options.group)->reduce_scatter_tensor_coalesced(outputs, inputs, op, options);
}

void send(const Tensor& tensor, int dst, const PointToPointOptions& options) {
  const CalledGroup group(options.group);
  group.handle().send(tensor, peer_in(group, "send", dst), options);
}
int recv(const Tensor& tensor, int src, const PointToPointOptions& options) {
  const CalledGroup group(options.group);
  const int source = group.handle().recv(tensor, source_in(group, "recv", src), options);
  return group.description().rank < 0 ? source : get_global_rank(group.handle(), source);
}
Work isend(const Tensor& tensor, int dst, const PointToPointOptions& options) {
  const CalledGroup group(options.group);
  return group->isend(tensor, peer_in(group, "send", dst), options);
}
Work irecv(const Tensor& tensor, int src, const PointToPointOptions& options) {
  const CalledGroup group(options.group);
  return group->irecv(tensor, source_in(group, "recv", src), options);
}
std::vector<Work> batch_isend_irecv(std::span<const P2POp> ops, ProcessGroup group) {
  if (!group) group = default_group();
  std::vector<P2POp> in_group(ops.begin(), ops.end());
  for (P2POp& op : in_group)
    op.peer = source_in(CalledGroup(op.group ? op.group : group), "batch_isend_irecv", op.peer);
  return group.batch_isend_irecv(in_group);
}

}  // namespace v1
}  // namespace dlaunch
