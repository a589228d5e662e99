// libFuzzer: any output of nvidia-smi, any text of NVIDIA's driver, any bytes of an NCCL library and of the
// loader's cache. What is read is bounded and safe for a terminal, and every judgement of it can be printed.

#include <string>

#include "launcher/doctor/gpu_json.h"
#include "launcher/doctor/gpu_verdict.h"
#include "launcher/doctor/nccl_text.h"
#include "launcher/doctor/nvidia_text.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::launcher;  // NOLINT(google-build-using-namespace)

constexpr std::size_t most_rows = 256;

void require_harmless(const std::string& text, std::size_t most) {
  require(text.size() <= most && text.find_first_of("\n\r\x1b\x07") == std::string::npos);
}

GpuFacts facts_from(const std::string& text) {
  GpuFacts facts;
  facts.driver = driver_version(text);
  facts.is_driver_open = is_open_driver(text);
  facts.is_module_loaded = has_module(text, "nvidia");
  facts.query.program = "nvidia-smi";
  facts.query.gpus = gpus_from_csv(text, gpu_fields());
  facts.query.processes = processes_from_csv(text);
  facts.query.topology = topology_from(text);
  facts.query.peer_access = peer_access_from(text);
  facts.query.last_line = last_line_of(text);
  facts.ports = {fabric_port(text, 1, text, text, text)};
  if (const auto version = nccl_version_in(text)) {
    require(version->code >= 0 && !nccl_version_text(version->code).empty());
    facts.nccl = {"/libnccl.so.2", version->code, version->cuda};
  }
  return facts;
}

void fuzz(FuzzInput input) {
  constexpr std::size_t short_text = 123;
  const std::string text(input.text());
  const GpuFacts facts = facts_from(text);
  require(facts.query.gpus.size() <= most_rows && facts.query.processes.size() <= most_rows);
  for (const GpuDevice& gpu : facts.query.gpus) {
    require_harmless(gpu.name, short_text);
    require_harmless(gpu.bus_id, short_text);
  }
  for (const auto& [nic, name] : facts.query.topology.nics) require_harmless(name, short_text);
  require_harmless(facts.query.last_line, short_text);
  require_harmless(rejected_field(text).value_or(""), short_text);
  require_harmless(facts.ports[0].state, short_text);
  for (const std::string& path : cached_libraries(text, "libnccl.so.2"))
    require(path.ends_with("/libnccl.so.2"));
  (void)is_excluded(text);
  for (const Finding& one : check_gpus(facts))
    require(one.text.find_first_of("\n\r\x1b\x07") == std::string::npos);
  require(!gpu_json(facts).empty());
}

}  // namespace
