// The arithmetic of the double of NCCL: apart from the product's, so that a test compares the two.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace doubles {

struct Operator {
  ncclRedOp_t base = ncclSum;
  std::optional<double> factor;  // of one that multiplies first
};

// Bytes of one value; 0: the double does not know the type.
std::size_t size_of(ncclDataType_t type);

// REQUIRES: the double knows the type.
double value_at(const void* scalar, ncclDataType_t type);

// One rank's values, multiplied if the operator does that; an average of floating point does, by 1 / ranks.
std::vector<std::byte> loaded(const std::byte* values, std::size_t count, ncclDataType_t type,
                              const Operator& op, int ranks);
// into[i] = into[i] op values[i]
void combine(std::vector<std::byte>& into, const std::vector<std::byte>& values, ncclDataType_t type,
             const Operator& op);
// After the values of all ranks: divides an average of integers.
void finish(std::vector<std::byte>& values, ncclDataType_t type, const Operator& op, int ranks);

}  // namespace doubles
