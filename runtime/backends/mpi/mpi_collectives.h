// The collectives of one group as non-blocking calls of MPI. Each returns when its operation has completed on
// this rank, and throws DistError otherwise; the arguments are those of Backend, checked by the group.
//
// MPI counts elements with int: what is longer goes in parts, one after another, or as one element of a
// larger type. Tensors that do not follow each other in memory are copied, or sent as messages of their own.
#pragma once

#include <span>

#include "dlaunch/backend.h"
#include "runtime/backends/mpi/mpi_group.h"

namespace dlaunch::internal {

void mpi_all_reduce(MpiRequests& call, const Tensor& tensor, const Reduction& reduction);
void mpi_broadcast(MpiRequests& call, const Tensor& tensor, int src);
void mpi_all_gather(MpiRequests& call, std::span<const Tensor> outputs, const Tensor& input);
void mpi_barrier(MpiRequests& call);
void mpi_reduce(MpiRequests& call, const Tensor& tensor, int dst, const Reduction& reduction);
void mpi_gather(MpiRequests& call, std::span<const Tensor> outputs, const Tensor& input, int dst);
void mpi_scatter(MpiRequests& call, const Tensor& output, std::span<const Tensor> inputs, int src);
void mpi_reduce_scatter(MpiRequests& call, const Tensor& output, std::span<const Tensor> inputs,
                        const Reduction& reduction);
void mpi_all_to_all(MpiRequests& call, std::span<const Tensor> outputs, std::span<const Tensor> inputs);

}  // namespace dlaunch::internal
