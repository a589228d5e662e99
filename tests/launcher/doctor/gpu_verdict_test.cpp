#include "launcher/doctor/gpu_verdict.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/launcher/doctor/made_gpus.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

// The findings that are not ok, as doctor prints them.
std::string complaints(const GpuFacts& facts) {
  Findings findings = check_gpus(facts);
  std::erase_if(findings, [](const Finding& one) { return one.grade == Grade::ok; });
  return describe(findings);
}

// Exactly one line, with these parts.
void expect_one(const GpuFacts& facts, const std::string& begin, const std::string& part) {
  const std::string text = complaints(facts);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  EXPECT_TRUE(text.starts_with(begin)) << text;
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(GpuVerdict, EightHealthyGpusAreTwoLines) {
  EXPECT_EQ(describe(check_gpus(healthy(8))),
            "ok    8 GPUs: NVIDIA H100 80GB HBM3 with 79 GiB; driver 580.159.04; NVLink between all\n"
            "ok    NCCL 2.32.3 for CUDA 13.4: /usr/lib/libnccl.so.2\n");
}

TEST(GpuVerdict, NothingOfNvidiaIsOneLine) {
  const GpuFacts none;
  EXPECT_EQ(describe(check_gpus(none)), "ok    no NVIDIA driver: --nproc-per-node=auto counts processors\n");
  GpuFacts amd;
  amd.usable = 4;
  EXPECT_EQ(describe(check_gpus(amd)), "ok    4 AMD GPUs (by device files)\n");
  GpuFacts program_only;
  program_only.query.program = "/usr/bin/nvidia-smi";
  program_only.query.last_line =
      "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.";
  EXPECT_EQ(complaints(program_only), "");
}

TEST(GpuVerdict, GpusWithoutADriver) {
  GpuFacts facts;
  facts.on_bus = {"0000:01:00.0", "0000:02:00.0"};
  expect_one(facts, "note  2 NVIDIA GPUs on the PCI bus (0000:01:00.0, 0000:02:00.0), but the kernel has no",
             "modprobe nvidia");
  facts.is_module_loaded = true;
  expect_one(facts, "note  the kernel has an NVIDIA driver, but this container sees no GPU", "--gpus=all");
}

TEST(GpuVerdict, ADriverWithoutAnAnswer) {
  GpuFacts facts = healthy(2);
  facts.query.gpus.clear();
  facts.query.last_line = "Failed to initialize NVML: Driver/library version mismatch";
  expect_one(facts, "BAD   /usr/bin/nvidia-smi shows no GPU (\"Failed to", "restart the machine");
  facts.query.last_line = "No devices were found";
  expect_one(facts, "BAD   /usr/bin/nvidia-smi shows no GPU (\"No devices were found\")", "Xid");
  facts.query.timed_out = true;
  expect_one(facts, "BAD   /usr/bin/nvidia-smi does not answer", "Xid");
  facts.query.program.clear();
  expect_one(facts, "note  2 GPUs, driver 580.159.04, but no nvidia-smi", "install nvidia-smi");
  facts.usable = 0;
  expect_one(facts, "note  there is an NVIDIA driver (580.159.04), but no usable GPU",
             "CUDA_VISIBLE_DEVICES");
  GpuFacts no_gpu = healthy(0);
  expect_one(no_gpu, "note  /usr/bin/nvidia-smi shows no GPU", "no GPU on the PCI bus");
}

TEST(GpuVerdict, NvidiaSmiStopsAnsweringLater) {
  GpuFacts facts = healthy(8);
  facts.query.timed_out = true;
  expect_one(facts, "note  /usr/bin/nvidia-smi stopped answering", "topo -m");
}

TEST(GpuVerdict, GpusOfSeveralKinds) {
  GpuFacts facts = healthy(2);
  facts.query.gpus[1].name = "NVIDIA A100";
  facts.query.gpus[1].memory_mib.reset();
  EXPECT_TRUE(
      check_gpus(facts)[0].text.starts_with("2 GPUs: 1 NVIDIA A100, 1 NVIDIA H100 80GB HBM3 with 79 GiB;"));
}

TEST(GpuVerdict, HiddenGpus) {
  GpuFacts facts = healthy(8);
  facts.usable = 3;
  EXPECT_TRUE(check_gpus(facts)[0].text.ends_with("; jobs use 3 (CUDA_VISIBLE_DEVICES, /dev/nvidia*)"));
  facts.usable = 0;
  expect_one(facts, "note  8 GPUs: ", "this user's jobs can use none: check CUDA_VISIBLE_DEVICES");
}

TEST(GpuVerdict, AGpuThatIsLost) {
  GpuFacts facts = healthy(8);
  facts.query.gpus.pop_back();
  expect_one(facts, "note  the driver has GPUs that nvidia-smi does not show: 0000:07:00.0", "Xid");
}

TEST(GpuVerdict, UncorrectedErrorsAreBad) {
  GpuFacts facts = healthy(8);
  facts.query.gpus[2].uncorrected_errors = 1;
  facts.query.gpus[5].uncorrected_errors = 7;
  expect_one(facts,
             "BAD   uncorrected memory errors (ECC) since the driver was loaded: GPU 2, 5: ", "--gpu-reset");
}

TEST(GpuVerdict, HeatSlowsButAPowerLimitDoesNot) {
  GpuFacts facts = healthy(1);
  facts.query.gpus[0].clock_reasons = 0x4;
  EXPECT_EQ(complaints(facts), "");
  for (const std::uint64_t reason : {0x8U, 0x20U, 0x40U, 0x80U}) {
    facts.query.gpus[0].clock_reasons = reason;
    expect_one(facts, "note  heat or the power supply slows the GPU down", "PERFORMANCE");
  }
}

TEST(GpuVerdict, ANarrowLinkOfPcie) {
  GpuFacts facts = healthy(8);
  facts.query.gpus[3].link_width = 8;
  expect_one(facts, "note  PCIe of GPU 3 is below what it can be: gen 5 x8 of gen 5 x16: ", "slot");
}

TEST(GpuVerdict, ALowGenerationCountsOnlyIfTheGpuWorks) {
  GpuFacts facts = healthy(1);
  GpuDevice& gpu = facts.query.gpus[0];
  gpu.link_generation = 1;
  EXPECT_EQ(complaints(facts), "") << "it is idle";
  gpu.clock_reasons = 0;
  expect_one(facts, "note  PCIe of the GPU is below what it can be: gen 1 x16 of gen 5 x16", "firmware");
  gpu.clock_reasons.reset();
  EXPECT_EQ(complaints(facts), "") << "it may be idle";
}

TEST(GpuVerdict, Modes) {
  GpuFacts facts = healthy(8);
  for (GpuDevice& gpu : facts.query.gpus) gpu.is_persistent = false;
  expect_one(facts, "note  persistence mode is off on all 8 GPUs", "nvidia-persistenced");
  facts = healthy(8);
  facts.query.gpus[0].is_partitioned = true;
  expect_one(facts, "note  MIG is on for GPU 0", "-mig 0");
  facts = healthy(1);
  facts.query.gpus[0].compute_mode = "Exclusive_Process";
  expect_one(facts, "note  one process at a time on the GPU (compute mode Exclusive_Process)",
             "nvidia-smi -c 0");
  facts.query.gpus[0].compute_mode = "Prohibited";
  expect_one(facts, "BAD   no program may compute on the GPU", "nvidia-smi -c 0");
}

TEST(GpuVerdict, AGpuInUse) {
  GpuFacts facts = healthy(8);
  facts.query.processes = {{"0000:04:00.0", 12}, {"0000:04:00.0", 13}};
  expect_one(facts, "note  other programs use GPU 4 (process 12, 13)", "dlaunch status");
  facts.query.processes.push_back({"0000:06:00.0", 14});
  expect_one(facts, "note  other programs use GPU 4, 6 (first: process 12, 13)", "dlaunch status");
}

TEST(GpuVerdict, TheModuleOfUnifiedMemory) {
  GpuFacts facts = healthy(1);
  facts.has_unified_memory = false;
  expect_one(facts, "note  the kernel module nvidia_uvm is not loaded", "modprobe nvidia_uvm");
}

TEST(GpuVerdict, Nccl) {
  GpuFacts facts = healthy(1);
  facts.nccl = {};
  expect_one(facts, "note  NCCL (libnccl.so.2) is neither", "pip install nvidia-nccl-cu13,");
  facts.driver = "535.104.05";
  expect_one(facts, "note  NCCL (libnccl.so.2) is neither", "pip install nvidia-nccl-cu12,");
  facts.nccl = {"/l/libnccl.so.2", 21801, "12.1"};
  expect_one(facts, "note  NCCL 2.18.1 for CUDA 12.1: /l/libnccl.so.2 is too old", "needs 2.19: pip install");
  facts.nccl.version = 22809;
  EXPECT_EQ(check_gpus(facts)[1].text,
            "NCCL 2.28.9 for CUDA 12.1: /l/libnccl.so.2 (ranks that share a GPU need 2.30)");
  facts.nccl.version.reset();
  EXPECT_EQ(check_gpus(facts)[1], (Finding{Grade::ok, "NCCL of unknown version: /l/libnccl.so.2", ""}));
}

}  // namespace
}  // namespace dlaunch::launcher
