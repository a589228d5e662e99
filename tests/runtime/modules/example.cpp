// A third party's backend, written from the public headers alone: one rank, which has only itself.

#include <dlaunch/backend.h>

namespace {

class Alone final : public dlaunch::Backend {
 public:
  dlaunch::Work all_reduce(const dlaunch::Tensor&, const dlaunch::Reduction&,
                           const dlaunch::Operation&) override {
    return {};
  }
  dlaunch::Work barrier(const dlaunch::Operation&) override { return {}; }
  void abort(const std::string&) noexcept override {}
  void shutdown() noexcept override {}
};

bool viable(std::string&) { return true; }

std::unique_ptr<dlaunch::Backend> create(const dlaunch::BackendContext& context) {
  if (context.size != 1) throw dlaunch::DistBackendError("the example backend is for one rank");
  return std::make_unique<Alone>();
}

}  // namespace

const dlaunch::BackendModule dlaunch_backend_module = {dlaunch::backend_abi_version, "example", "cpu", viable,
                                                       create};
