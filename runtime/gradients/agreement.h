// What the ranks of a gradient reducer must agree on, as rows of numbers that a collective can carry, and the
// first difference as a sentence. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/data_parallel.h"

namespace dlaunch::internal {

// A parameter: dtype, number of dimensions, dimensions.
using ParameterRow = std::array<std::int64_t, 2 + Tensor::max_dims>;

ParameterRow row_of(const Tensor& parameter);
// "float32[2, 3]"; also of rows that no tensor has.
std::string row_text(const ParameterRow& row);

// The reducer as a whole. The parameters count by a hash of their rows: only ranks that differ send the rows.
enum class Agreed : std::uint8_t {
  usable,  // 0: this rank's own arguments are wrong
  parameters,
  hash,
  device,  // its kind
  first_bucket_bytes,
  bucket_cap_bytes,
  op,
  find_unused_parameters,
  rebuild_buckets,
  broadcast_parameters,
  count
};
using ReducerRow = std::array<std::int64_t, static_cast<std::size_t>(Agreed::count)>;

ReducerRow row_of(std::span<const ParameterRow> parameters, Device device, const ReducerOptions& options,
                  bool usable);

// `rows`: by rank; so below. The first rank whose arguments are wrong.
std::optional<std::size_t> unusable_rank(std::span<const ReducerRow> rows);

// Whether all ranks have the same parameters.
bool same_parameters(std::span<const ReducerRow> rows);

// "bucket_cap_bytes is 1024 on rank 0 and 2048 on rank 3"; none: the options and the kinds of device are
// equal.
std::optional<std::string> option_difference(std::span<const ReducerRow> rows);

// The first rank that differs from rank 0, and its first parameter that does: "parameter 2 (fc.weight) is
// float32[2, 3] on rank 0 and float32[3, 2] on rank 1". Each rank has as many rows as parameters; `names`: of
// this rank's parameters. None: all are equal.
std::optional<std::string> parameter_difference(std::span<const std::span<const ParameterRow>> rows,
                                                std::span<const std::string> names);

// A step that begins: its number, and whether its gradients are reduced.
struct StepRow {
  std::int64_t step;
  std::int64_t synchronised;

  bool operator==(const StepRow&) const = default;
};

// None: all begin the same step.
std::optional<std::string> step_difference(std::span<const StepRow> rows);

// "2 (fc.weight)"; only the number if it has no name.
std::string parameter_text(std::size_t parameter, std::span<const std::string> names);
// "2 (fc.weight), 3 (fc.bias) and 40 more"
std::string parameters_text(std::span<const std::size_t> parameters, std::span<const std::string> names);

}  // namespace dlaunch::internal
