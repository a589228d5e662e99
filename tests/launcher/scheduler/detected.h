// What is detected in an environment, as the tests of each scheduler call it.
#pragma once

#include "launcher/scheduler/scheduler.h"
#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {

inline Settings given(std::map<std::string, std::string> flags) {
  Settings out;
  for (auto& [flag, value] : flags) out[flag] = {value, Origin::command_line, "--" + flag};
  return out;
}

inline DetectedScheduler found(const EnvironmentMap& environment, const Settings& settings = {},
                               const std::string& host = "a", const std::string& hosts_file = "",
                               const std::string& pbs_nodes = "", const std::string& mpi_run = "") {
  auto detected = detect_scheduler({environment, host, hosts_file, pbs_nodes, mpi_run}, settings);
  EXPECT_TRUE(detected.ok()) << (detected.ok() ? "" : detected.error().message());
  return detected.ok() ? *detected : DetectedScheduler{};
}
inline std::string refused(const EnvironmentMap& environment, const Settings& settings = {},
                           const std::string& pbs_nodes = "") {
  auto detected = detect_scheduler({environment, "a", "", pbs_nodes}, settings);
  EXPECT_FALSE(detected.ok());
  return detected.ok() ? "" : detected.error().message();
}
inline std::map<std::string, std::string> values(const DetectedScheduler& detected) {
  std::map<std::string, std::string> out;
  for (const auto& [flag, setting] : detected.settings) out[flag] = setting.value;
  return out;
}
inline EnvironmentMap with(EnvironmentMap map, const EnvironmentMap& more) {
  for (const auto& [name, value] : more) map[name] = value;
  return map;
}

// Node 1 of a step of two nodes, in a job of four.
inline const EnvironmentMap slurm{{"SLURM_JOB_ID", "42"},
                                  {"SLURM_JOB_NUM_NODES", "4"},
                                  {"SLURM_NNODES", "4"},
                                  {"SLURM_JOB_NODELIST", "c[01-04]"},
                                  {"SLURM_STEP_ID", "3"},
                                  {"SLURM_STEP_NUM_NODES", "2"},
                                  {"SLURM_STEP_NODELIST", "c[03,04]"},
                                  {"SLURM_STEP_NUM_TASKS", "2"},
                                  {"SLURM_NODEID", "1"},
                                  {"SLURM_LOCALID", "0"}};

}  // namespace dlaunch::launcher
