#include "dlaunch/torch/remote_module.h"

#include <ATen/ATen.h>

#include <cstdint>

#include "dlaunch/error.h"
#include "runtime/base/demangled.h"

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

std::string worker_of(std::string_view remote_device) {
  const std::size_t slash = remote_device.find('/');
  const std::string worker(remote_device.substr(0, slash));
  if (slash != std::string_view::npos && remote_device.substr(slash + 1) != "cpu") {
    throw DistError("the remote device \"" + std::string(remote_device) +
                    "\" is not on the CPU: remote calls carry tensors of the CPU; a module can move what it "
                    "gets to a device of its worker in its forward()");
  }
  return rpc::get_worker_info(worker).name;
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
