#include "tests/doubles/cuda_graphs.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "tests/doubles/cuda_device.h"

namespace doubles {

bool is_joined(const Capture& capture) {
  std::vector<bool> is_before_end(capture.nodes.size());
  std::vector<std::size_t> to_see;
  if (capture.origin->last_node) to_see.push_back(*capture.origin->last_node);
  while (!to_see.empty()) {
    const std::size_t node = to_see.back();
    to_see.pop_back();
    if (is_before_end[node]) continue;
    is_before_end[node] = true;
    to_see.insert(to_see.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return std::ranges::all_of(capture.streams, [&](const StreamPointer& stream) {
    return !stream->last_node || is_before_end[*stream->last_node];
  });
}

Place launch(const Capture& graph, const StreamPointer& stream, const Place& previous) {
  Streams& all = streams();
  std::vector<Place> start = {all.end_of(stream)};
  if (previous.stream) start.push_back(previous);
  std::map<StreamPointer, StreamPointer> copies;
  std::vector<Place> ends;
  for (const CapturedNode& node : graph.nodes) {
    StreamPointer& copy = copies[node.stream];
    if (!copy) copy = all.make(stream->device, false);
    std::vector<Place> after = start;
    for (const std::size_t before : node.after) after.push_back(ends[before]);
    all.add(copy, node.make(), std::move(after));
    ends.push_back(all.end_of(copy));
  }
  for (const auto& [captured, copy] : copies) all.forget(copy);
  all.add(
      stream, [] { return true; }, ends);
  return all.end_of(stream);
}

}  // namespace doubles

struct CUgraph_st {
  std::shared_ptr<const doubles::Capture> capture;
};
struct CUgraphExec_st {
  std::shared_ptr<const doubles::Capture> graph;
  std::mutex mutex;
  doubles::Place end;  // of the latest launch; protected by mutex
};

extern "C" {
#define DOUBLE __attribute__((visibility("default")))

DOUBLE cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return doubles::streams().begin_capture(doubles::stream_of(stream), mode);
}
DOUBLE cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  std::shared_ptr<doubles::Capture> capture;
  const cudaError_t error = doubles::streams().end_capture(doubles::stream_of(stream), capture);
  if (error == cudaSuccess) *graph = new CUgraph_st{capture};
  return error;
}
DOUBLE cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = doubles::streams().capture_status(doubles::stream_of(stream));
  return cudaSuccess;
}
DOUBLE cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(doubles::capture_mode_of_thread(), *mode);
  return cudaSuccess;
}
DOUBLE cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long /*flags*/) {
  *exec = new CUgraphExec_st{graph->capture, {}, {}};
  return cudaSuccess;
}
DOUBLE cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(exec->mutex);
  exec->end = launch(*exec->graph, doubles::stream_of(stream), exec->end);
  return cudaGetLastError();
}
DOUBLE cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
DOUBLE cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

}  // extern "C"
