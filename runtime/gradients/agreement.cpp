#include "runtime/gradients/agreement.h"

#include <algorithm>

namespace dlaunch::internal {

namespace {

constexpr std::size_t place(Agreed value) { return static_cast<std::size_t>(value); }

// FNV-1a over whole numbers.
std::int64_t hash_of(std::span<const ParameterRow> rows) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const ParameterRow& row : rows) {
    for (const std::int64_t value : row) {
      hash ^= static_cast<std::uint64_t>(value);
      hash *= 0x100000001b3U;
      hash ^= hash >> 32U;
    }
  }
  return static_cast<std::int64_t>(hash);
}

std::string on_two_ranks(const std::string& first, std::size_t rank, const std::string& other) {
  return first + " on rank 0 and " + other + " on rank " + std::to_string(rank);
}

}  // namespace

ParameterRow row_of(const Tensor& parameter) {
  ParameterRow row{static_cast<std::int64_t>(parameter.dtype()),
                   static_cast<std::int64_t>(parameter.shape().size())};
  std::ranges::copy(parameter.shape(), row.begin() + 2);
  return row;
}

std::string row_text(const ParameterRow& row) {
  const bool known = row[0] >= 0 && row[0] <= static_cast<std::int64_t>(last_dtype);
  std::string text = known ? std::string(to_string(static_cast<DType>(row[0]))) : "unknown dtype";
  const auto dims = std::clamp<std::int64_t>(row[1], 0, Tensor::max_dims);
  text += "[";
  for (std::size_t i = 0; i < static_cast<std::size_t>(dims); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(row[2 + i]);
  return text + "]";
}

ReducerRow row_of(std::span<const ParameterRow> parameters, Device device, const ReducerOptions& options,
                  bool usable) {
  ReducerRow row{};
  row[place(Agreed::usable)] = usable ? 1 : 0;
  row[place(Agreed::parameters)] = static_cast<std::int64_t>(parameters.size());
  row[place(Agreed::hash)] = hash_of(parameters);
  row[place(Agreed::device)] = device.kind == Device::Kind::cuda ? 1 : 0;
  row[place(Agreed::first_bucket_bytes)] = static_cast<std::int64_t>(options.first_bucket_bytes);
  row[place(Agreed::bucket_cap_bytes)] = static_cast<std::int64_t>(options.bucket_cap_bytes);
  row[place(Agreed::op)] = static_cast<std::int64_t>(options.op);
  row[place(Agreed::find_unused_parameters)] = options.find_unused_parameters ? 1 : 0;
  row[place(Agreed::rebuild_buckets)] = options.rebuild_buckets ? 1 : 0;
  row[place(Agreed::broadcast_parameters)] = options.broadcast_parameters ? 1 : 0;
  return row;
}

std::optional<std::size_t> unusable_rank(std::span<const ReducerRow> rows) {
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    if (rows[rank][place(Agreed::usable)] == 0) return rank;
  return std::nullopt;
}

bool same_parameters(std::span<const ReducerRow> rows) {
  return std::ranges::all_of(rows, [&](const ReducerRow& row) {
    return row[place(Agreed::parameters)] == rows[0][place(Agreed::parameters)] &&
           row[place(Agreed::hash)] == rows[0][place(Agreed::hash)];
  });
}

std::optional<std::string> option_difference(std::span<const ReducerRow> rows) {
  struct Option {
    Agreed value;
    const char* name;
  };
  static constexpr std::array options = {
      Option{Agreed::device, "the device of the parameters"},
      Option{Agreed::first_bucket_bytes, "first_bucket_bytes"},
      Option{Agreed::bucket_cap_bytes, "bucket_cap_bytes"},
      Option{Agreed::op, "op"},
      Option{Agreed::find_unused_parameters, "find_unused_parameters"},
      Option{Agreed::rebuild_buckets, "rebuild_buckets"},
      Option{Agreed::broadcast_parameters, "broadcast_parameters"},
  };
  const auto text = [](Agreed option, std::int64_t value) {
    if (option == Agreed::device) return std::string(value == 0 ? "cpu" : "cuda");
    if (option == Agreed::op) return std::string(to_string(static_cast<ReduceOp>(value)));
    return std::to_string(static_cast<std::uint64_t>(value));
  };
  for (std::size_t rank = 1; rank < rows.size(); ++rank) {
    for (const auto& [option, name] : options) {
      const std::int64_t first = rows[0][place(option)];
      const std::int64_t other = rows[rank][place(option)];
      if (first != other)
        return on_two_ranks(std::string(name) + " is " + text(option, first), rank, text(option, other));
    }
  }
  return std::nullopt;
}

std::optional<std::string> parameter_difference(std::span<const std::span<const ParameterRow>> rows,
                                                std::span<const std::string> names) {
  const std::span<const ParameterRow> first = rows[0];
  for (std::size_t rank = 1; rank < rows.size(); ++rank) {
    const std::span<const ParameterRow> other = rows[rank];
    const std::size_t common = std::min(first.size(), other.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (first[i] == other[i]) continue;
      return on_two_ranks("parameter " + parameter_text(i, names) + " is " + row_text(first[i]), rank,
                          row_text(other[i]));
    }
    if (first.size() != other.size()) {
      return on_two_ranks("there are " + std::to_string(first.size()) + " parameters", rank,
                          std::to_string(other.size())) +
             "; the first that one of them lacks is parameter " + parameter_text(common, names);
    }
  }
  return std::nullopt;
}

std::optional<std::string> step_difference(std::span<const StepRow> rows) {
  const auto text = [](const StepRow& row) {
    return "step " + std::to_string(row.step) + (row.synchronised != 0 ? "" : " without reduction (no_sync)");
  };
  for (std::size_t rank = 1; rank < rows.size(); ++rank) {
    if (rows[rank] != rows[0])
      return "rank 0 begins " + text(rows[0]) + ", rank " + std::to_string(rank) + " " + text(rows[rank]);
  }
  return std::nullopt;
}

std::string parameter_text(std::size_t parameter, std::span<const std::string> names) {
  std::string text = std::to_string(parameter);
  if (parameter < names.size() && !names[parameter].empty()) text += " (" + names[parameter] + ")";
  return text;
}

std::string parameters_text(std::span<const std::size_t> parameters, std::span<const std::string> names) {
  constexpr std::size_t shown = 16;
  std::string text;
  for (const std::size_t parameter : parameters.first(std::min(shown, parameters.size())))
    text += (text.empty() ? "" : ", ") + parameter_text(parameter, names);
  if (parameters.size() > shown) text += " and " + std::to_string(parameters.size() - shown) + " more";
  return text;
}

}  // namespace dlaunch::internal
