// What the probes of `dlaunch doctor` and the dlaunch that started them write to each other, and what --json
// prints. Pure. What is read here comes from another host: numbers are bounded, texts are made safe for a
// terminal.
#pragma once

#include <string>
#include <string_view>

#include "launcher/doctor/finding.h"
#include "launcher/doctor/gpu_facts.h"
#include "launcher/doctor/link.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// A probe's lines begin with it; a login shell may write others.
inline constexpr std::string_view probe_mark = "dlaunch-doctor: ";

// One line of JSON, without its end.
std::string to_json(const HostFacts& facts);
std::string to_json(const ProbeTarget& target);
std::string to_json(const LinkMeasurement& found);

Result<HostFacts> host_facts_from(std::string_view line);
Result<ProbeTarget> probe_target_from(std::string_view line);
Result<LinkMeasurement> link_measurement_from(std::string_view line);

// The object of `dlaunch doctor --json`, with the end of its line.
std::string report_json(const Findings& findings, const GpuFacts& gpus, const PeerReport& peers);

}  // namespace dlaunch::launcher
