// Graphs of the double of the CUDA runtime: what was added to streams while they were captured, to be carried
// out at each launch, late and in any order that the graph allows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/doubles/cuda_streams.h"

namespace doubles {

struct CapturedNode {
  StreamPointer stream;  // as it was captured
  StepMaker make;
  std::vector<std::size_t> after;
};

// One capture, and the graph that it becomes.
struct Capture {
  StreamPointer origin;
  cudaStreamCaptureMode mode;
  const void* thread;  // that began it
  bool is_invalid = false;
  std::vector<CapturedNode> nodes;
  std::vector<StreamPointer> streams;  // the origin, and those that an event has made a part of it
};

// Whether the end of the origin comes after the ends of all other streams.
bool is_joined(const Capture& capture);

// Adds the operations of the graph behind what is in `stream`, and behind `previous`; returns their end.
Place launch(const Capture& graph, const StreamPointer& stream, const Place& previous);

}  // namespace doubles
