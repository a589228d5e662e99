#include "dlaunch/torch/remote_module.h"

#include <ATen/ATen.h>

#include <charconv>
#include <cstdint>

#include "dlaunch/error.h"
#include "runtime/base/demangled.h"
#include "runtime/torch/rpc_devices.h"

namespace dlaunch::torch {
inline namespace v1 {
namespace rpc_detail {

namespace {

constexpr std::size_t longest_name = 200;

std::uint64_t hash_of(std::string_view text) {
  codec::Signature signature;
  signature.add(text);
  return signature.hash();
}

}  // namespace

Placement placement_of(std::string_view remote_device) {
  const std::size_t slash = remote_device.find('/');
  const std::string worker = rpc::get_worker_info(remote_device.substr(0, slash)).name;
  if (slash == std::string_view::npos) return {worker, -1};
  const std::string_view device = remote_device.substr(slash + 1);
  if (device == "cpu") return {worker, -1};
  constexpr std::string_view cuda = "cuda:";
  const std::string_view digits = device.starts_with(cuda) ? device.substr(cuda.size()) : std::string_view();
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) {
    throw DistError("the remote device \"" + std::string(remote_device) +
                    "\" is neither on the CPU nor on CUDA: give \"" + worker + "/cpu\" or \"" + worker +
                    "/cuda:0\"");
  }
  return {worker, number};
}

void move_to_device(::torch::nn::Module& module, int device) {
  if (device < 0) return;
  if (const int count = internal::device_count(); device >= count) {
    throw DistError("a RemoteModule is to be on cuda:" + std::to_string(device) + ", and worker " +
                    rpc::get_worker_info().name + " has so many devices: " + std::to_string(count));
  }
  module.to(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)));
}

at::Tensor on_device(const at::Tensor& tensor, int device) {
  return tensor.defined() ? tensor.to(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device))) : tensor;
}

std::string readable_name(const std::type_info& type) {
  std::string name = dlaunch::internal::demangled(type.name());
  for (const std::string_view own : {"dlaunch::torch::v1::rpc_detail::", "dlaunch::torch::v1::"})
    for (std::size_t at = name.find(own); at != std::string::npos; at = name.find(own))
      name.erase(at, own.size());
  if (name.size() <= longest_name) return name;
  const std::string hash = std::to_string(hash_of(name));
  return name.substr(0, longest_name) + "... " + hash;
}

std::vector<rpc::RRef<at::Tensor>> references_to(std::vector<at::Tensor> tensors) {
  std::vector<rpc::RRef<at::Tensor>> references;
  for (at::Tensor& tensor : tensors) references.emplace_back(std::move(tensor));
  return references;
}

}  // namespace rpc_detail
}  // namespace v1
}  // namespace dlaunch::torch
