// at::Tensor as argument and result of remote calls (dlaunch/rpc.h), alone and in vectors, tuples, optionals
// and types of the program.
//
//   at::Tensor sum(const at::Tensor& a, const at::Tensor& b) { return a + b; }
//   DLAUNCH_RPC(sum);
//   at::Tensor result = dlaunch::rpc::rpc_sync("worker1", sum, torch::ones(2), torch::full(2, 3));  // [4, 4]
//
// Tensors of any dtype whose elements have a size, with any strides (they arrive contiguous), and undefined
// ones. Those of the CPU arrive on the CPU. Those of CUDA devices arrive on the devices that a device map of
// the caller names (RpcOptions, rpc.h): arguments on the callee's, results and to_here() by the inverse of
// the map. A tensor of a device that no map names or of another kind of device, a sparse or a quantised one
// is an error before anything is sent.
//
//   options.set_device_map("worker1", {{0, 1}});  // what is on cuda:0 here is on cuda:1 there, and back
//
// They go through the host: the sender waits until they are there, after what is in the current stream of the
// thread that calls, or that the function runs on; the receiver waits until they are on its device. An
// argument is made in the current stream of the thread that runs the function, a result in the streams that
// were current at the call.
//
// Long tensors of the CPU are not copied: they are sent from their memory, and the tensor that arrives is the
// memory in which its bytes have arrived (all tensors of a message share it). So nobody may change a tensor
// that is an argument of rpc_async() or remote() until the call has ended, nor one that a function has
// returned: if others write it, the function returns a clone(). A worker that calls itself passes the memory
// itself.
//
// The tensor that arrives requires a gradient if the one that was sent does and the call is under a context
// (dist_autograd.h); otherwise it is a constant.
#pragma once

#include <ATen/core/Tensor.h>

#include "dlaunch/codec.h"
#include "dlaunch/export.h"

namespace dlaunch::codec {

// The codec finds these beside its visitors.
DLAUNCH_EXPORT void serialize(Sign& sign, at::Tensor& tensor);
DLAUNCH_EXPORT void serialize(Probe& probe, at::Tensor& tensor);
DLAUNCH_EXPORT void serialize(Write& write, at::Tensor& tensor);
DLAUNCH_EXPORT void serialize(Read& read, at::Tensor& tensor);

}  // namespace dlaunch::codec
