#include "runtime/torch/module_tensors.h"

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/object.h"
#include "dlaunch/torch/tensor.h"
#include "runtime/torch/devices.h"

namespace dlaunch::torch::internal {

namespace {

// What must be equal on all ranks: the kind and name of a tensor, and its form.
struct Form {
  std::string what;
  std::string form;
};

std::vector<Form> forms_of(const ModuleTensors& tensors) {
  std::vector<Form> forms;
  const auto add = [&forms](const char* kind, const std::vector<NamedTensor>& all) {
    for (const auto& [name, tensor] : all) {
      forms.push_back({std::string(kind) + " " + name,
                       c10::str(tensor.scalar_type(), tensor.sizes(), " with strides ", tensor.strides())});
    }
  };
  add("parameter", tensors.trained);
  add("parameter without gradient", tensors.frozen);
  add("buffer", tensors.buffers);
  return forms;
}

// A problem, then the forms, as objects that can be sent.
using Description = std::pair<std::string, std::vector<std::pair<std::string, std::string>>>;

Description description_of(const ModuleTensors& tensors, const std::optional<std::string>& problem) {
  Description description{problem.value_or(""), {}};
  for (Form& form : forms_of(tensors))
    description.second.emplace_back(std::move(form.what), std::move(form.form));
  return description;
}

std::string text_of(const std::pair<std::string, std::string>& form) {
  return form.first + " " + form.second;
}

// None: both are equal.
std::optional<std::string> difference(const Description& first, const Description& other, std::size_t rank) {
  const auto& a = first.second;
  const auto& b = other.second;
  const std::string on_rank = " on rank " + std::to_string(rank);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i]) return text_of(a[i]) + " on rank 0 is " + text_of(b[i]) + on_rank;
  if (a.size() < b.size()) return text_of(b[a.size()]) + on_rank + " is missing on rank 0";
  if (a.size() > b.size()) return text_of(a[b.size()]) + " on rank 0 is missing" + on_rank;
  return std::nullopt;
}

}  // namespace

ModuleTensors tensors_of(const ::torch::nn::Module& module, const std::set<std::string>& ignored) {
  ModuleTensors tensors;
  std::unordered_set<const c10::TensorImpl*> seen;
  const auto is_new = [&](const std::string& name, const at::Tensor& tensor) {
    return tensor.defined() && !ignored.contains(name) && seen.insert(tensor.unsafeGetTensorImpl()).second;
  };
  for (const auto& item : module.named_parameters()) {
    if (!is_new(item.key(), item.value())) continue;
    (item.value().requires_grad() ? tensors.trained : tensors.frozen).push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers())
    if (is_new(item.key(), item.value())) tensors.buffers.push_back({item.key(), item.value()});
  return tensors;
}

Tensor memory_of(const at::Tensor& tensor) {
  // In the order of memory such a tensor is contiguous.
  const at::Tensor flat = tensor.detach().as_strided({tensor.numel()}, {1});
  const Tensor view = view_of(flat);
  if (static_cast<std::size_t>(tensor.dim()) > Tensor::max_dims) return view;
  return Tensor(view.data(), view.dtype(), std::span(tensor.sizes().data(), tensor.sizes().size()),
                view.device());
}

std::optional<std::string> why_not_dense(const at::Tensor& tensor) {
  if (auto reason = why_not_on(tensor.device())) return reason;
  if (tensor.layout() != at::kStrided) return "is sparse";
  if (!tensor.is_non_overlapping_and_dense()) return "has gaps in its memory: call contiguous()";
  if (!dtype_of(tensor.scalar_type())) return "has a dtype that libdlaunch does not know";
  return std::nullopt;
}

void require_same_tensors(const ProcessGroup& group, const ModuleTensors& tensors,
                          const std::optional<std::string>& problem, const char* operation) {
  const auto reject = [&](const std::string& reason) {
    throw DistError(reason, {.rank = group.rank(), .operation = operation, .group = group.name()});
  };
  const std::vector<Description> all = all_gather_object(description_of(tensors, problem), group);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].first.empty()) reject("rank " + std::to_string(rank) + ": " + all[rank].first);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (const auto text = difference(all[0], all[rank], rank)) reject(*text);
}

void broadcast_all(const ProcessGroup& group, const std::vector<NamedTensor>& tensors, int source,
                   std::optional<std::chrono::milliseconds> timeout) {
  std::vector<Work> works;
  for (const auto& [name, tensor] : tensors)
    works.push_back(group.broadcast(memory_of(tensor), source, {.async_op = true, .timeout = timeout}));
  for (const Work& work : works) work.wait();
}

}  // namespace dlaunch::torch::internal
