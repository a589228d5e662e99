#include "runtime/torch/node_streams.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>

namespace dlaunch::torch::internal {

std::vector<c10::Stream> streams_of(::torch::autograd::Node& node) {
  std::vector<c10::Stream> streams;
  for (std::size_t i = 0; i < node.num_inputs(); ++i) {
    const auto& input = node.input_metadata(i);
    const bool is_first =
        input.device().is_cuda() && std::ranges::none_of(streams, [&](const c10::Stream& stream) {
          return stream.device() == input.device();
        });
    if (is_first) streams.push_back(input.stream());
  }
  return streams;
}

void hand_over(const at::Tensor& gradient, const ::torch::autograd::Edge& edge) {
  if (!gradient.is_cuda()) return;
  const c10::impl::DeviceGuardImplInterface& device =
      *c10::impl::getDeviceGuardImpl(gradient.device().type());
  const c10::Stream from = device.getStream(gradient.device());
  for (const c10::Stream& to : streams_of(*edge.function)) {
    if (to.device() != gradient.device() || to == from) continue;
    c10::Event computed(gradient.device().type());
    computed.record(from);
    to.wait(computed);
    if (gradient.layout() == at::kStrided) device.recordDataPtrOnStream(gradient.storage().data_ptr(), to);
  }
}

}  // namespace dlaunch::torch::internal
