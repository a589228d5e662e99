#include "examples/train_mnist/job.h"

#include <algorithm>
#include <charconv>

#include "examples/train_mnist/options.h"

namespace mnist {
namespace {

std::size_t number(const Environment& environment, const char* name, std::size_t otherwise) {
  const std::optional<std::string> text = environment(name);
  if (!text) return otherwise;
  std::size_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end)
    throw UsageError("environment variable " + std::string(name) + " is '" + *text + "', not a number");
  return value;
}

// Safe as a part of a file name, whatever the launcher was told to call the job.
std::string for_file_name(std::string text) {
  constexpr std::size_t longest = 100;
  if (text.size() > longest) text.resize(longest);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) {
        const bool kept =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
        return !kept;
      },
      '_');
  return text;
}

}  // namespace

Job job_from(const Environment& environment) {
  Job job;
  if (!environment("RANK")) return job;
  job.launched = true;
  job.rank = number(environment, "RANK", 0);
  job.world_size = number(environment, "WORLD_SIZE", 1);
  job.local_rank = number(environment, "LOCAL_RANK", job.rank);
  job.restarts = number(environment, "TORCHELASTIC_RESTART_COUNT", 0);
  // Nodes that come or go begin a new round too; torchrun does not count those.
  job.first_round = number(environment, "DLAUNCH_ROUND", job.restarts) == 0;
  // Many jobs are called "none", which is what torchrun calls a job without a name. Two that run at one time
  // on one host cannot have the store's port in common, though.
  const std::string name =
      environment("DLAUNCH_JOB_ID").value_or(environment("TORCHELASTIC_RUN_ID").value_or("none"));
  job.id = for_file_name(name) + "-" + for_file_name(environment("MASTER_PORT").value_or("0"));
  return job;
}

}  // namespace mnist
