#include "runtime/data_parallel/reducer_agreement.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <vector>

#include "dlaunch/error.h"

namespace dlaunch::internal {

namespace {

constexpr const char* construction = "GradientReducer";

[[noreturn]] void reject(const ProcessGroup& group, const char* operation, const std::string& reason) {
  throw DistError(reason, {.rank = group.rank(), .operation = operation, .group = group.name()});
}

// The rows of all ranks, by rank: `count` of each.
template <class Row>
std::vector<Row> gather_rows(const ProcessGroup& group, std::span<const Row> own) {
  constexpr std::size_t numbers = sizeof(Row) / sizeof(std::int64_t);
  static_assert(numbers * sizeof(std::int64_t) == sizeof(Row));
  const auto tensor = [](auto rows) {
    return Tensor(rows.data(), DType::int64, std::array{static_cast<std::int64_t>(rows.size() * numbers)});
  };
  std::vector<Row> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather_into_tensor(tensor(std::span(all)), tensor(own));
  return all;
}

std::optional<std::string> compare_parameters(const ProcessGroup& group, std::vector<ParameterRow> own,
                                              std::span<const std::string> names,
                                              std::span<const ReducerRow> reducers) {
  const auto count_of = [&](std::size_t rank) {
    return static_cast<std::size_t>(reducers[rank][static_cast<std::size_t>(Agreed::parameters)]);
  };
  std::size_t longest = 0;
  for (std::size_t rank = 0; rank < reducers.size(); ++rank) longest = std::max(longest, count_of(rank));
  own.resize(longest);
  const std::vector<ParameterRow> all = gather_rows<ParameterRow>(group, own);
  std::vector<std::span<const ParameterRow>> rows;
  for (std::size_t rank = 0; rank < reducers.size(); ++rank)
    rows.push_back(std::span(all).subspan(rank * longest, count_of(rank)));
  return parameter_difference(rows, names);
}

}  // namespace

void require_agreement(const ProcessGroup& group, std::span<const Parameter> parameters,
                       std::span<const std::string> names, const ReducerOptions& options,
                       const std::optional<std::string>& problem) {
  std::vector<ParameterRow> own;
  own.reserve(parameters.size());
  for (const Parameter& parameter : parameters) own.push_back(row_of(parameter.value));
  const ReducerRow reducer = row_of(own, options, !problem);
  const std::vector<ReducerRow> reducers = gather_rows<ReducerRow>(group, {&reducer, 1});
  if (problem) reject(group, construction, *problem);
  if (const auto rank = unusable_rank(reducers)) {
    reject(group, construction,
           "the arguments of rank " + std::to_string(*rank) + " are wrong; its own error describes them");
  }
  if (!same_parameters(reducers)) {
    if (const auto difference = compare_parameters(group, std::move(own), names, reducers))
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

void require_same_step(const ProcessGroup& group, StepRow own) {
  if (const auto difference = step_difference(gather_rows<StepRow>(group, {&own, 1})))
    reject(group, "begin_step", *difference + "; all ranks must make the same steps");
}

}  // namespace dlaunch::internal
