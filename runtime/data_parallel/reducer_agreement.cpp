#include "runtime/data_parallel/reducer_agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/staging/carried_memory.h"

namespace dlaunch::internal {

namespace {

constexpr const char* construction = "GradientReducer";

[[noreturn]] void reject(const ProcessGroup& group, const char* operation, const std::string& reason) {
  throw DistError(reason, {.rank = group.rank(), .operation = operation, .group = group.name()});
}

// The rows of all ranks, by rank: as many of each. `device`: of the parameters.
template <class Row>
std::vector<Row> gather_rows(const ProcessGroup& group, std::span<const Row> own, Device device) {
  constexpr std::size_t numbers = sizeof(Row) / sizeof(std::int64_t);
  static_assert(numbers * sizeof(std::int64_t) == sizeof(Row));
  std::vector<std::int64_t> mine(own.size() * numbers);
  if (!own.empty()) std::memcpy(mine.data(), own.data(), own.size_bytes());
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(group.size()));
  CarriedMemory carried(group, device);
  group.all_gather_into_tensor(carried.of(all), carried.of(mine));
  carried.fetch();
  std::vector<Row> rows(own.size() * static_cast<std::size_t>(group.size()));
  if (!rows.empty()) std::memcpy(rows.data(), all.data(), all.size() * sizeof(std::int64_t));
  return rows;
}

std::optional<std::string> compare_parameters(const ProcessGroup& group, std::vector<ParameterRow> own,
                                              std::span<const std::string> names,
                                              std::span<const ReducerRow> reducers, Device device) {
  const auto count_of = [&](std::size_t rank) {
    return static_cast<std::size_t>(reducers[rank][static_cast<std::size_t>(Agreed::parameters)]);
  };
  std::size_t longest = 0;
  for (std::size_t rank = 0; rank < reducers.size(); ++rank) longest = std::max(longest, count_of(rank));
  own.resize(longest);
  const std::vector<ParameterRow> all = gather_rows<ParameterRow>(group, own, device);
  std::vector<std::span<const ParameterRow>> rows;
  for (std::size_t rank = 0; rank < reducers.size(); ++rank)
    rows.push_back(std::span(all).subspan(rank * longest, count_of(rank)));
  return parameter_difference(rows, names);
}

}  // namespace

Device device_of(std::span<const Parameter> parameters) {
  return parameters.empty() ? Device() : parameters.front().value.device();
}

void require_agreement(const ProcessGroup& group, std::span<const Parameter> parameters,
                       std::span<const std::string> names, const ReducerOptions& options,
                       const std::optional<std::string>& problem) {
  std::vector<ParameterRow> own;
  own.reserve(parameters.size());
  for (const Parameter& parameter : parameters) own.push_back(row_of(parameter.value));
  const ReducerRow reducer = row_of(own, device_of(parameters), options, !problem);
  const std::vector<ReducerRow> reducers =
      gather_rows<ReducerRow>(group, {&reducer, 1}, device_of(parameters));
  if (problem) reject(group, construction, *problem);
  if (const auto rank = unusable_rank(reducers)) {
    reject(group, construction,
           "the arguments of rank " + std::to_string(*rank) + " are wrong; its own error describes them");
  }
  if (!same_parameters(reducers)) {
    if (const auto difference =
            compare_parameters(group, std::move(own), names, reducers, device_of(parameters)))
      reject(group, construction,
             *difference + "; all ranks must have the same parameters in the same order");
  }
  if (const auto difference = option_difference(reducers))
    reject(group, construction, *difference + "; all ranks must give the same options");
}

void broadcast_parameters(const ProcessGroup& group, std::span<const Parameter> parameters) {
  std::vector<Work> works;
  works.reserve(parameters.size());
  std::exception_ptr failure;
  // All of them end before the call does: they write to the caller's memory.
  try {
    for (const Parameter& parameter : parameters)
      works.push_back(group.broadcast(parameter.value, 0, {.async_op = true, .timeout = {}}));
  } catch (...) {
    failure = std::current_exception();
  }
  for (const Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void require_same_step(const ProcessGroup& group, StepRow own, Device device) {
  if (const auto difference = step_difference(gather_rows<StepRow>(group, {&own, 1}, device)))
    reject(group, "begin_step", *difference + "; all ranks must make the same steps");
}

}  // namespace dlaunch::internal
