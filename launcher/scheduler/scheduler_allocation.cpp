#include "launcher/scheduler/scheduler_allocation.h"

#include <algorithm>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/job_port.h"
#include "store/base/number.h"

namespace dlaunch::launcher {
namespace {

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace

std::optional<SchedulerAllocation::Value> Variables::text(const std::vector<const char*>& names) const {
  for (const char* name : names) {
    const auto found = map_.find(name);
    if (found != map_.end() && !found->second.empty()) return Value{found->second, name};
  }
  return std::nullopt;
}

std::optional<SchedulerAllocation::Value> Variables::integer(const std::vector<const char*>& names) const {
  auto value = text(names);
  return value && parse_number<std::uint64_t>(value->text) ? value : std::nullopt;
}

std::optional<std::uint64_t> Variables::number(const std::vector<const char*>& names) const {
  const auto value = text(names);
  return value ? parse_number<std::uint64_t>(value->text) : std::nullopt;
}

SchedulerAllocation::Value port_of(std::string_view job, std::string_view step, const std::string& from) {
  const std::uint64_t apart = step.empty() ? 0 : hash_of(step) % 1000;
  return {std::to_string(port_for(hash_of(job) * 31 + apart)), from};
}

std::optional<std::size_t> place_of(const std::string& host, const std::vector<std::string>& hosts) {
  const auto first_label = [](const std::string& name) { return name.substr(0, name.find('.')); };
  const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const std::string& one) {
    return one == host || first_label(one) == first_label(host);
  });
  if (found == hosts.end()) return std::nullopt;
  return static_cast<std::size_t>(found - hosts.begin());
}

Error alone(const std::string& job, const std::string& nodes, const std::string& how) {
  return usage(job + " has " + nodes + " nodes, but dlaunch was started on one of them only", "", how);
}

Error several_here(const std::string& name, const std::string& how) {
  return usage(name + " started several dlaunch on this node", "",
               "dlaunch starts the workers itself: use " + how + ", and --nproc-per-node");
}

}  // namespace dlaunch::launcher
