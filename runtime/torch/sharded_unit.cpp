#include "runtime/torch/sharded_unit.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include <utility>

#include "dlaunch/error.h"
#include "runtime/torch/devices.h"

namespace dlaunch::torch::internal {

namespace {

void set_memory(const at::Tensor& tensor, std::size_t bytes) {
  const c10::DeviceGuard guard(tensor.device());
  tensor.storage().set_data_ptr_noswap(tensor.storage().allocator()->allocate(bytes));
  tensor.storage().set_nbytes(bytes);
}

void allocate(const at::Tensor& tensor) { set_memory(tensor, tensor.nbytes()); }

// What the current stream has done before may still use it.
void free_memory(const at::Tensor& tensor) {
  keep_for_current_stream(tensor);
  set_memory(tensor, 0);
}

std::int64_t signed_size(std::size_t size) { return static_cast<std::int64_t>(size); }

}  // namespace

ShardedUnit::ShardedUnit(std::string name, std::vector<NamedTensor> parameters, ProcessGroup group,
                         std::optional<std::chrono::milliseconds> timeout)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      group_(std::move(group)),
      timeout_(timeout) {
  const at::NoGradGuard no_grad;
  std::vector<std::size_t> sizes;
  for (const auto& [parameter_name, tensor] : parameters_) {
    sizes_.push_back(tensor.sizes().vec());
    sizes.push_back(static_cast<std::size_t>(tensor.numel()));
  }
  const auto ranks = static_cast<std::size_t>(group_.size());
  layout_ = dlaunch::internal::shard_layout(sizes, ranks);
  whole_ = at::zeros({signed_size(layout_.shard * ranks)}, parameters_[0].tensor.options());
  for (std::size_t i = 0; i < parameters_.size(); ++i) view_in(whole_, i).copy_(parameters_[i].tensor);
  state_ = State::whole;
  shard_ = at::empty({signed_size(layout_.shard)}, whole_.options());
  write_back();
  shard_.set_requires_grad(true);
  release();
}

dlaunch::CollectiveOptions ShardedUnit::options(bool async_op) const {
  return {{.async_op = async_op, .timeout = timeout_}, group_};
}

at::Tensor ShardedUnit::view_in(const at::Tensor& whole, std::size_t parameter) const {
  const std::vector<std::int64_t>& sizes = sizes_[parameter];
  return whole.narrow(0, signed_size(layout_.offsets[parameter]), c10::multiply_integers(sizes)).view(sizes);
}

void ShardedUnit::start_gather() {
  if (state_ != State::sharded) return;
  const at::NoGradGuard no_grad;
  allocate(whole_);
  gathering_ = torch::all_gather_into_tensor(whole_, shard_.detach(), options(true));
  state_ = State::gathering;
}

void ShardedUnit::finish_gather() {
  if (state_ != State::gathering) return;
  std::exchange(gathering_, std::nullopt)->wait();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].tensor.set_data(view_in(whole_, i));
  state_ = State::whole;
}

void ShardedUnit::release() {
  if (state_ == State::sharded) return;
  if (gathering_) std::exchange(gathering_, std::nullopt)->wait();
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters_) tensor.set_data(at::empty({0}, whole_.options()));
  free_memory(whole_);
  state_ = State::sharded;
}

void ShardedUnit::write_back() {
  const at::NoGradGuard no_grad;
  shard_.detach().copy_(whole_.narrow(0, group_.rank() * shard_.numel(), shard_.numel()));
}

void ShardedUnit::take_gradients(const at::Tensor& sums) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!gradient.defined()) continue;
    if (gradient.layout() != at::kStrided) {
      throw DistError(
          "parameter " + parameters_[i].name + " has a sparse gradient; make its layer with sparse(false)",
          {.rank = group_.rank(), .operation = "backward", .group = group_.name()});
    }
    view_in(sums, i).add_(gradient);
    gradient.reset();
  }
}

void ShardedUnit::keep_gradients() {
  const at::NoGradGuard no_grad;
  if (!kept_.defined()) kept_ = at::zeros(whole_.sizes(), whole_.options());
  take_gradients(kept_);
}

void ShardedUnit::drop_gradients() {
  kept_.reset();
  shard_.mutable_grad().reset();
}

void ShardedUnit::start_reduce() {
  const at::NoGradGuard no_grad;
  keep_gradients();
  gradients_ = std::exchange(kept_, {});
  reduction_ = torch::reduce_scatter_tensor(at::empty(shard_.sizes(), whole_.options()), gradients_,
                                            ReduceOp::avg, options(true));
}

void ShardedUnit::finish_reduce(double scale) {
  if (!reduction_) return;
  const at::NoGradGuard no_grad;
  const at::Tensor own = std::exchange(reduction_, std::nullopt)->result().front();
  for (const at::Tensor& used : {gradients_, own}) keep_for_current_stream(used);
  gradients_.reset();
  if (scale != 1) own.mul_(scale);
  at::Tensor& gradient = shard_.mutable_grad();
  if (gradient.defined()) {
    gradient.add_(own);
  } else {
    gradient = own;
  }
}

at::Tensor ShardedUnit::gather(const at::Tensor& part) const {
  const at::Tensor all = at::empty({part.numel() * group_.size()}, part.options());
  torch::all_gather_into_tensor(all, part.detach(), options(false));
  return all.narrow(0, 0, signed_size(layout_.elements)).clone();
}

at::Tensor ShardedUnit::part_of(const at::Tensor& whole) const {
  const at::Tensor padded = at::zeros(whole_.sizes(), whole.options());
  padded.narrow(0, 0, signed_size(layout_.elements)).copy_(whole.detach());
  return padded.narrow(0, group_.rank() * shard_.numel(), shard_.numel()).clone();
}

std::size_t ShardedUnit::gathered_bytes() const {
  std::size_t bytes = state_ == State::sharded ? 0 : whole_.nbytes();
  for (const at::Tensor& gradients : {kept_, gradients_})
    if (gradients.defined()) bytes += gradients.nbytes();
  return bytes;
}

}  // namespace dlaunch::torch::internal
