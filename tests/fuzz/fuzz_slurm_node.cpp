// libFuzzer: any output of `scontrol show node`. An address is found or a reason given, and neither could do
// harm in a log or in a command.

#include <algorithm>
#include <cctype>
#include <string>

#include "launcher/scheduler/slurm_node.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void fuzz(FuzzInput input) {
  constexpr std::size_t longest_reason = 200;
  const std::string node = "c03";
  auto address = dlaunch::launcher::slurm_node_address(input.text(), node);
  const std::string text = address ? *address : address.error().message();
  require(!text.empty() && text.size() <= (address ? std::size_t{255} : longest_reason));
  require(std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isprint(c) != 0; }));
  if (!address) return;
  require(*address != node && address->front() != '-');
  require(address->find_first_of(" '\"$`;&|<>()/\\") == std::string::npos);
  // The record of an address that was found gives the same address.
  auto again = dlaunch::launcher::slurm_node_address("NodeName=c03 NodeAddr=" + *address, node);
  require(again && *again == *address);
}

}  // namespace
