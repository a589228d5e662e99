#include "launcher/machine/slurm_controller.h"

#include "launcher/machine/program_output.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t longest_answer = 64 * 1024;

}  // namespace

Result<std::string> show_slurm_node(const std::string& node, Duration patience) {
  const TimePoint deadline = steady_now() + patience;
  // In one word, so that no name can be an option.
  auto printed = output_of({"scontrol", "show", "node=" + node}, deadline, longest_answer);
  if (!printed) return std::move(printed).error();
  const bool is_late =
      deadline - steady_now() < std::chrono::milliseconds(2);  // it waits in whole milliseconds
  if (printed->empty() && is_late)
    return Error{ErrorKind::timeout, "scontrol has not answered in " + to_words(patience), "", "", ""};
  return printed;
}

}  // namespace dlaunch::launcher
