#include "dlaunch/process_group.h"

#include "dlaunch/error.h"
#include "runtime/group_impl.h"

namespace dlaunch {
inline namespace v1 {

namespace {
GroupImpl& required(const std::shared_ptr<GroupImpl>& impl) {
  if (!impl) throw DistError("this ProcessGroup means no group");
  return *impl;
}
}  // namespace

int ProcessGroup::rank() const { return required(impl_).description().rank; }
int ProcessGroup::size() const { return required(impl_).description().size; }
const std::string& ProcessGroup::name() const { return required(impl_).description().name; }
const std::string& ProcessGroup::backend() const { return required(impl_).description().backend; }
std::chrono::milliseconds ProcessGroup::timeout() const { return required(impl_).description().timeout; }

Work ProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op, const OperationOptions& options) const {
  return required(impl_).all_reduce(tensor, op, options);
}
Work ProcessGroup::broadcast(const Tensor& tensor, int src, const OperationOptions& options) const {
  return required(impl_).broadcast(tensor, src, options);
}
Work ProcessGroup::all_gather(std::span<const Tensor> outputs, const Tensor& input,
                              const OperationOptions& options) const {
  return required(impl_).all_gather(outputs, input, options);
}
Work ProcessGroup::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                          const OperationOptions& options) const {
  return required(impl_).all_gather_into_tensor(output, input, options);
}
Work ProcessGroup::barrier(const OperationOptions& options) const { return required(impl_).barrier(options); }
void ProcessGroup::abort(const std::string& reason) const { required(impl_).abort(reason); }

}  // namespace v1
}  // namespace dlaunch
