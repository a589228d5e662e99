#include "agent/observe/library_remedy.h"

#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

// The text behind the last `before`, up to the next `after`; empty if one of them is missing.
std::string between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t found = text.rfind(before);
  if (found == std::string_view::npos) return "";
  text.remove_prefix(found + before.size());
  const std::size_t end = text.find(after);
  constexpr std::size_t longest = 200;
  return end == std::string_view::npos ? "" : shortened(sanitize_for_terminal(text.substr(0, end)), longest);
}

// dlaunch gives each worker the right value.
std::string leave_alone(const std::string& variable, const std::string& program, const std::string& on_host) {
  return "let nothing between dlaunch and " + program + on_host + " set " + variable +
         " (a wrapper script, the environment of a container); dlaunch sets it for each worker";
}

}  // namespace

std::string remedy_of_library_error(std::string_view last_lines, const std::string& program,
                                    const std::string& on_host) {
  constexpr std::string_view changed = "; dlaunch had set it: something between";
  if (last_lines.find(changed) != std::string_view::npos) {
    const std::string name = between(last_lines, "the environment variable ", " ");
    return name.empty() ? "" : leave_alone(name, program, on_host);
  }
  if (last_lines.find("two processes have joined as rank ") != std::string_view::npos)
    return leave_alone("RANK", program, on_host);
  if (last_lines.find(": cannot use the network interface '") != std::string_view::npos) {
    const std::string has = between(last_lines, "; it has ", " (");
    const std::string variable = between(last_lines, has + " (", ")");
    if (has.empty() || variable.empty()) return "";
    return "unset " + variable + ", or name with it an interface of every host (here" + on_host + ": " + has +
           ")";
  }
  if (const std::string name = between(last_lines, ": unknown backend '", "': known backends: ");
      !name.empty()) {
    return "use one of the backends that are there, or install the module backend_" + name + ".so" + on_host +
           " in a folder that DLAUNCH_BACKEND_PATH names; PyTorch programs bring their own backends";
  }
  if (const std::string name = between(last_lines, ": backend '", "' cannot be used: "); !name.empty()) {
    const std::string why = between(std::string(last_lines) + "\n", "' cannot be used: ", "\n");
    return "use the backend gloo, which needs neither a GPU nor MPI, or correct this" + on_host + ": " + why;
  }
  return "";
}

}  // namespace dlaunch::agent
