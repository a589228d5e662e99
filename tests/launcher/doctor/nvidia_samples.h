// What nvidia-smi printed: of a machine with one H200, recorded; of one with eight H100 and one with two
// sockets and no NVLink, in the same format.
#pragma once

#include <string>

namespace dlaunch::launcher::samples {

inline const std::string one_gpu_topology =
    "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \t0-15\t0\t\tN/A\n"
    "\n"
    "Legend:\n"
    "\n"
    "  X    = Self\n"
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

inline const std::string one_gpu_peers =
    " \t\x1b[4mGPU0\t\x1b[0m\n"
    " GPU0\tX\t\n"
    "\n"
    "Legend:\n"
    "\n"
    "  X    = Self\n"
    "  OK   = Status Ok\n"
    "  CNS  = Chipset not supported\n";

// Eight GPUs with NVSwitch; a network card for each, of its own switch.
inline const std::string eight_gpu_topology = [] {
  std::string text = "\t\x1b[4m";
  for (int i = 0; i < 8; ++i) text += "GPU" + std::to_string(i) + "\t";
  for (int i = 0; i < 8; ++i) text += "NIC" + std::to_string(i) + "\t";
  text += "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n";
  for (int row = 0; row < 16; ++row) {
    text += (row < 8 ? "GPU" : "NIC") + std::to_string(row % 8) + "\t";
    for (int column = 0; column < 16; ++column) {
      const bool is_one_switch = row % 8 == column % 8;
      const bool is_one_socket = row % 8 / 4 == column % 8 / 4;
      const bool are_gpus = row < 8 && column < 8;
      text += row == column   ? " X "
              : are_gpus      ? "NV18"
              : is_one_switch ? "PXB"
              : is_one_socket ? "NODE"
                              : "SYS";
      text += "\t";
    }
    text += row >= 8 ? "\t\t\n" : row < 4 ? "0-55,112-167\t0\t\tN/A\n" : "56-111,168-223\t1\t\tN/A\n";
  }
  text += "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n";
  for (int i = 0; i < 8; ++i) text += "  NIC" + std::to_string(i) + ": mlx5_" + std::to_string(i) + "\n";
  return text + "\n";
}();

// Two sockets with two GPUs each, without NVLink; one network card, at the first socket.
inline const std::string pcie_topology =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tPHB\tSYS\tSYS\tPHB\t0-31\t0\t\tN/A\n"
    "GPU1\tPHB\t X \tSYS\tSYS\tPIX\t0-31\t0\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tNODE\tSYS\t32-63\t1\t\tN/A\n"
    "GPU3\tSYS\tSYS\tNODE\t X \tSYS\t32-63\t1\t\tN/A\n"
    "NIC0\tPHB\tPIX\tSYS\tSYS\t X \t\t\t\n"
    "\n"
    "Legend:\n"
    "\n"
    "NIC Legend:\n"
    "\n"
    "  NIC0: mlx5_bond_0\n";

inline const std::string pcie_peers =
    " \t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\t\x1b[0m\n"
    " GPU0\tX\tOK\tCNS\tCNS\t\n"
    " GPU1\tOK\tX\tTNS\tOK\t\n"
    " GPU2\tCNS\tTNS\tX\tOK\t\n"
    " GPU3\tCNS\tOK\tOK\tX\t\n"
    "\n"
    "Legend:\n";

inline const std::string driver =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n"
    "GCC version:  gcc version 15.3.0 (GCC) \n";

}  // namespace dlaunch::launcher::samples
