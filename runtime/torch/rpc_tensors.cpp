#include "dlaunch/torch/rpc_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "dlaunch/rpc.h"
#include "dlaunch/rpc_context.h"
#include "runtime/rpc_protocol/tensor_head.h"
#include "runtime/torch/autograd_context.h"
#include "runtime/torch/rpc_devices.h"

namespace dlaunch::torch::internal {

namespace {

using dlaunch::internal::TensorBytes;
using dlaunch::internal::TensorHead;
using dlaunch::internal::TensorLink;

// The message that is being written, as far as autograd is concerned.
class SentMessage final : public codec::MessageNote {
 public:
  explicit SentMessage(std::shared_ptr<AutogradContext> context)
      : context_(std::move(context)), number_(AutogradContexts::get().new_number()) {}
  ~SentMessage() override {
    if (!is_sent_) context_->forget_sent(number_);
  }
  SentMessage(const SentMessage&) = delete;
  SentMessage& operator=(const SentMessage&) = delete;
  void on_sent() override { is_sent_ = true; }
  void on_rejected() override { context_->forget_sent(number_); }
  TensorLink add(const at::Tensor& tensor) {
    return {context_->id(), rpc::get_worker_info().id, number_, context_->add_sent(number_, tensor),
            device_number(tensor)};
  }

 private:
  const std::shared_ptr<AutogradContext> context_;
  const std::uint64_t number_;
  std::atomic<bool> is_sent_ = false;
};

std::optional<TensorLink> record(codec::Writer& writer, const at::Tensor& tensor) {
  const std::uint64_t id = rpc::rpc_detail::call_context();
  if (id == 0 || !writer.has_blocks() || !c10::GradMode::is_enabled() || !tensor.requires_grad())
    return std::nullopt;
  std::shared_ptr<codec::MessageNote>& note = writer.note();
  if (!note) {
    std::shared_ptr<AutogradContext> context = AutogradContexts::get().find_or_add(id);
    if (!context) return std::nullopt;  // it has ended: there will be no backward pass
    note = std::make_shared<SentMessage>(std::move(context));
  }
  return dynamic_cast<SentMessage&>(*note).add(tensor);
}

[[noreturn]] void reject(const at::Tensor& tensor, const std::string& reason) {
  throw DistError("a tensor of " + std::string(c10::toString(tensor.scalar_type())) + " " +
                  c10::str(tensor.sizes()) + " " + reason);
}

// The receiver's device that the tensor is for.
std::int16_t device_at_receiver(const at::Tensor& tensor, const codec::Writer& writer) {
  if (tensor.is_cpu()) return dlaunch::internal::on_cpu;
  const std::string place = "is on " + tensor.device().str() + ", and ";
  const codec::ReceiverDevices* const receiver = writer.receiver();
  if (receiver == nullptr) reject(tensor, place + "objects carry tensors of the CPU: pass its cpu()");
  if (!tensor.is_cuda())
    reject(tensor,
           place + "remote calls carry tensors of the CPU, and of CUDA by device maps: pass its cpu()");
  const int own = tensor.device().index();
  const std::optional<int> theirs = receiver->find(own);
  if (!theirs) reject(tensor, place + receiver->why_none(own));
  return static_cast<std::int16_t>(*theirs);
}

void require_dense(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    reject(tensor, "is sparse or quantised: remote calls carry dense tensors");
}

std::size_t element_size(std::int8_t type) {
  if (type < 0 || type >= static_cast<std::int8_t>(at::ScalarType::NumOptions)) return 0;
  const auto known = static_cast<at::ScalarType>(type);
  return known == at::ScalarType::Undefined || c10::isQIntType(known) ? 0 : c10::elementSize(known);
}

// Contiguous. What comes from a device is complete: the copy is in the order of this thread's stream, and the
// host waits for it.
at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

// The bytes where they have arrived, or a copy if nothing keeps them there.
at::Tensor tensor_of(const TensorBytes& bytes) {
  const auto& [head, block] = bytes;
  const at::TensorOptions options = at::TensorOptions().dtype(static_cast<at::ScalarType>(head.type));
  if (block.data.use_count() > 0) {
    return at::from_blob(
        const_cast<void*>(block.data.get()), head.shape, [kept = block.data](void*) {}, options);
  }
  at::Tensor tensor = at::empty(head.shape, options);
  if (block.size > 0) std::memcpy(tensor.data_ptr(), block.data.get(), block.size);
  return tensor;
}

}  // namespace

void write_tensor(codec::Write& write, const at::Tensor& tensor, std::int16_t device) {
  TensorHead head;
  head.is_defined = tensor.defined();
  if (!head.is_defined) return write(head);
  require_dense(tensor);
  const auto plain = std::make_shared<const at::Tensor>(on_host(tensor));
  head.type = static_cast<std::int8_t>(tensor.scalar_type());
  head.device = device;
  head.shape = tensor.sizes().vec();
  head.link = record(write.writer(), tensor);
  write(head);
  write.writer().plain(std::shared_ptr<const void>(plain, plain->data_ptr()), plain->nbytes());
}

}  // namespace dlaunch::torch::internal

namespace dlaunch::codec {

using internal::TensorHead;

void serialize(Sign& sign, at::Tensor& /*tensor*/) {
  TensorHead head;
  sign(head);
}

void serialize(Probe& probe, at::Tensor& /*tensor*/) {
  TensorHead head;
  probe(head);
}

void serialize(Write& write, at::Tensor& tensor) {
  const std::int16_t device =
      tensor.defined() ? torch::internal::device_at_receiver(tensor, write.writer()) : internal::on_cpu;
  torch::internal::write_tensor(write, tensor, device);
}

void serialize(Read& read, at::Tensor& tensor) {
  const internal::TensorBytes bytes =
      internal::read_tensor(read, {torch::internal::element_size, torch::internal::device_count});
  tensor = at::Tensor();
  if (!bytes.head.is_defined) return;
  const at::NoGradGuard no_grad;
  tensor = torch::internal::tensor_of(bytes);
  const auto device = static_cast<at::DeviceIndex>(bytes.head.device);
  if (bytes.head.device != internal::on_cpu) tensor = tensor.to(at::Device(at::kCUDA, device));
  const std::optional<internal::TensorLink>& link = bytes.head.link;
  if (!link) return;
  const auto context = torch::internal::AutogradContexts::get().find_or_add(link->context);
  if (!context) return;
  // A worker that calls itself: changes of the one must not pass by the graph of the other.
  if (tensor.is_cpu() && link->worker == rpc::get_worker_info().id) tensor = tensor.clone();
  context->add_received({link->worker, link->message}, link->index, link->device, tensor);
}

}  // namespace dlaunch::codec
