// at::Tensor as argument and result of remote calls (dlaunch/rpc.h), alone and in vectors, tuples, optionals
// and types of the program.
//
//   at::Tensor sum(const at::Tensor& a, const at::Tensor& b) { return a + b; }
//   DLAUNCH_RPC(sum);
//   at::Tensor result = dlaunch::rpc::rpc_sync("worker1", sum, torch::ones(2), torch::full(2, 3));  // [4, 4]
//
// CPU tensors of any dtype whose elements have a size, with any strides (they arrive contiguous), and
// undefined ones. A tensor of another device, a sparse or a quantised one is an error before anything is
// sent.
//
// Long tensors are not copied: they are sent from their memory, and the tensor that arrives is the memory in
// which its bytes have arrived (all tensors of a message share it). So nobody may change a tensor that is an
// argument of rpc_async() or remote() until the call has ended, nor one that a function has returned: if
// others write it, the function returns a clone(). A worker that calls itself passes the memory itself.
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
