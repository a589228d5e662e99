// The smallest backend there is: for a world of one rank, where every collective is a copy at most. With it a
// program runs on a machine without any network.
#include <dlaunch/backend.h>

#include <cstring>
#include <memory>
#include <string>

namespace {

using dlaunch::Operation;
using dlaunch::Reduction;
using dlaunch::Tensor;
using dlaunch::Work;

void copy(const Tensor& to, const Tensor& from) {
  if (from.nbytes() > 0 && to.data() != from.data()) std::memmove(to.data(), from.data(), from.nbytes());
}

// The group has checked the arguments; the reduction of one rank's values is the values.
class Solo final : public dlaunch::Backend {
 public:
  Work all_reduce(const Tensor&, const Reduction&, const Operation&) override { return {}; }
  Work broadcast(const Tensor&, int, const Operation&) override { return {}; }
  Work barrier(const Operation&) override { return {}; }
  Work all_gather(std::span<const Tensor> outputs, const Tensor& input, const Operation&) override {
    copy(outputs[0], input);
    return {};
  }
  Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                  const Operation&) override {
    copy(outputs[0], inputs[0]);
    return {};
  }
  void abort(const std::string&) noexcept override {}
  void shutdown() noexcept override {}
};

bool viable(std::string&) { return true; }

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  if (context.size != 1) {
    throw dlaunch::DistBackendError("solo is for one rank, this group has " + std::to_string(context.size));
  }
  return std::make_unique<Solo>();
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {dlaunch::backend_abi_version, "solo", "cpu", viable,
                                                       create};
