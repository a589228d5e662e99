#include "runtime/torch/fully_sharded_impl.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "dlaunch/object.h"
#include "runtime/gradients/shard_layout.h"

namespace dlaunch::torch::internal {

namespace {

constexpr const char* construction = "FullyShardedDataParallel";

}  // namespace

FullyShardedImpl*& FullyShardedImpl::current() {
  thread_local FullyShardedImpl* model = nullptr;
  return model;
}

void FullyShardedImpl::reject(const std::string& reason, const char* operation) const {
  throw DistError(reason, {.rank = group_.rank(), .operation = operation, .group = group_.name()});
}

FullyShardedImpl::FullyShardedImpl(std::shared_ptr<::torch::nn::Module> module, FullyShardedOptions options)
    : module_(std::move(module)),
      options_(std::move(options)),
      group_(options_.process_group ? options_.process_group : default_group()),
      tensors_(tensors_of(*module_, {})) {
  if (group_.rank() < 0) reject("this process is not a member of the group", construction);
  require_same_tensors(group_, tensors_, problem(), construction);
  require_same_units();
  for (const auto* all : {&tensors_.trained, &tensors_.frozen, &tensors_.buffers})
    broadcast_all(group_, *all, 0, options_.timeout);
}

void FullyShardedImpl::divide() {
  attach_hooks();
  make_units();
}

std::size_t FullyShardedImpl::place_of(const std::string& parameter) const {
  const auto unit = dlaunch::internal::unit_of(parameter, options_.units);
  return unit ? *unit + 1 : 0;
}

std::optional<std::string> FullyShardedImpl::problem() const {
  if (tensors_.trained.empty()) return "no parameter of the module requires a gradient";
  const NamedTensor& one = tensors_.trained.front();
  for (const std::vector<NamedTensor>* all : {&tensors_.trained, &tensors_.frozen, &tensors_.buffers}) {
    for (const auto& [name, tensor] : *all) {
      if (const auto reason = why_not_dense(tensor)) return name + " " + *reason;
      if (tensor.device() != device()) {
        return name + " is on " + tensor.device().str() + ", and " + one.name + " on " + device().str() +
               "; FullyShardedDataParallel takes modules on one device";
      }
    }
  }
  const auto modules = module_->named_modules();
  for (const std::string& unit : options_.units)
    if (unit.empty() || !modules.contains(unit)) return "the unit \"" + unit + "\" is no module of this one";
  std::vector<const NamedTensor*> first(options_.units.size() + 1);
  for (const NamedTensor& parameter : tensors_.trained) {
    const NamedTensor*& other = first[place_of(parameter.name)];
    if (other == nullptr) other = &parameter;
    if (other->tensor.scalar_type() != parameter.tensor.scalar_type()) {
      return "parameters of one unit have several dtypes: " + other->name + " is " +
             c10::toString(other->tensor.scalar_type()) + ", " + parameter.name + " is " +
             c10::toString(parameter.tensor.scalar_type()) + "; make one of their modules a unit";
    }
  }
  return problem_of_sharing();
}

std::optional<std::string> FullyShardedImpl::problem_of_sharing() const {
  std::unordered_map<const c10::TensorImpl*, std::string> names;
  for (const auto& item : module_->named_parameters()) {
    const auto [known, is_new] = names.try_emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (!is_new && place_of(known->second) != place_of(item.key())) {
      return "the parameter " + item.key() + " is " + known->second +
             ", too, in another unit; make a module that contains both a unit";
    }
  }
  return std::nullopt;
}

void FullyShardedImpl::require_same_units() const {
  const std::vector<std::vector<std::string>> all = all_gather_object(options_.units, group_);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      reject("rank " + std::to_string(rank) + " has other units than rank 0", construction);
}

// While the parameters have their sizes: autograd compares those of gradients with them later.
void FullyShardedImpl::attach_hooks() {
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : tensors_.trained) parameters.push_back(parameter.tensor);
  hooks_.emplace(parameters, [weak = weak_from_this()](std::size_t parameter) {
    if (const auto self = weak.lock()) self->or_fail([&] { self->on_gradient(parameter); });
  });
}

void FullyShardedImpl::make_units() {
  std::vector<std::vector<NamedTensor>> groups(options_.units.size() + 1);
  for (const NamedTensor& parameter : tensors_.trained) groups[place_of(parameter.name)].push_back(parameter);
  has_rest_ = !groups[0].empty();
  const auto modules = module_->named_modules();
  std::vector<std::size_t> unit_of_place(groups.size());
  for (std::size_t place = 0; place < groups.size(); ++place) {
    if (groups[place].empty()) continue;
    const std::string name = place == 0 ? "" : options_.units[place - 1];
    if (place > 0) unit_of_module_.emplace(modules[name].get(), units_.size());
    unit_of_place[place] = units_.size();
    units_.push_back(std::make_unique<ShardedUnit>(name, std::move(groups[place]), group_, options_.timeout));
  }
  for (const NamedTensor& parameter : tensors_.trained)
    unit_of_parameter_.push_back(unit_of_place[place_of(parameter.name)]);
  schedule_ = dlaunch::internal::UnitSchedule(units_.size());
  arrived_.resize(units_.size());
}

const ShardedUnit& FullyShardedImpl::unit(std::size_t shard) const {
  if (shard >= units_.size()) {
    reject("there is no shard " + std::to_string(shard) + "; there are " + std::to_string(units_.size()),
           construction);
  }
  return *units_[shard];
}

std::optional<std::size_t> FullyShardedImpl::unit_of(const ::torch::nn::Module& module) const {
  const auto found = unit_of_module_.find(&module);
  if (found == unit_of_module_.end()) return std::nullopt;
  return found->second;
}

double FullyShardedImpl::clip_grad_norm(double max_norm) {
  announce(Shared::clip, std::bit_cast<std::int64_t>(max_norm));
  return limit_norm(max_norm);
}

double FullyShardedImpl::limit_norm(double max_norm) {
  const at::NoGradGuard no_grad;
  const at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kDouble).device(device()));
  for (const auto& unit : units_)
    if (const at::Tensor& gradient = unit->shard().grad(); gradient.defined())
      sum.add_(gradient.to(at::kDouble).square().sum());
  torch::all_reduce(sum, ReduceOp::sum, {{.async_op = false, .timeout = options_.timeout}, group_});
  const double norm = std::sqrt(sum.item<double>());
  // As torch.nn.utils.clip_grad_norm_.
  if (const double scale = max_norm / (norm + 1e-6); scale < 1) {
    for (const auto& unit : units_)
      if (const at::Tensor& gradient = unit->shard().grad(); gradient.defined()) gradient.mul_(scale);
  }
  return norm;
}

FullyShardedStatistics FullyShardedImpl::statistics() const {
  FullyShardedStatistics statistics = statistics_;
  for (const auto& unit : units_) {
    statistics.whole_bytes += unit->whole_bytes();
    statistics.shard_bytes += unit->shard().nbytes();
    if (const at::Tensor& gradient = unit->shard().grad(); gradient.defined())
      statistics.gradient_bytes += gradient.nbytes();
  }
  statistics.gathered_bytes = gathered_bytes();
  return statistics;
}

std::size_t FullyShardedImpl::gathered_bytes() const {
  std::size_t bytes = 0;
  for (const auto& unit : units_) bytes += unit->gathered_bytes();
  return bytes;
}

void FullyShardedImpl::note_memory() {
  statistics_.peak_gathered_bytes = std::max(statistics_.peak_gathered_bytes, gathered_bytes());
}

}  // namespace dlaunch::torch::internal
