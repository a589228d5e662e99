// dtypes and reductions as MPI's types and operations.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"

namespace dlaunch::internal {

// How MPI combines the elements of a tensor.
struct MpiArithmetic {
  MPI_Datatype type;
  MPI_Op op;
  std::size_t units;  // of `type` in one element: complex numbers are added as pairs of reals
};

// Of avg and premul_sum: the sum (reduce.h). The results live as long as the process. Throws
// DistBackendError. Any thread. REQUIRES: the combination is allowed, MPI is initialised.
//
// MPI's own operations are taken if they mean the same. Its minimum and maximum leave open what becomes of a
// NaN, and it has no float16, bfloat16 or float8, and no arithmetic of bool: these are functions of reduce.h.
MpiArithmetic mpi_arithmetic(DType dtype, ReduceOp op);

// Whether MPI does that reduction by itself, without functions of the library's: then it may be on a device.
bool is_of_mpi_alone(DType dtype, ReduceOp op);

// Bytes of one message, of any number: MPI counts with int.
class MpiBytes {
 public:
  explicit MpiBytes(std::size_t bytes);
  ~MpiBytes();
  MpiBytes(const MpiBytes&) = delete;
  MpiBytes& operator=(const MpiBytes&) = delete;

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }  // may be freed once a call has taken it

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

// Bytes of a message that has come to a receive of `wanted` bytes. Throws DistBackendError.
std::size_t received_bytes(const MPI_Status& status, std::size_t wanted);

}  // namespace dlaunch::internal
