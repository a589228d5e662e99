// What `dlaunch top` shows of one moment, as lines for a terminal. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/job_status.h"
#include "agent/model/node_ranks.h"

namespace dlaunch::launcher {

// One job of this machine.
struct TopJob {
  struct Use {
    double cpu = 0;  // processors, since the last moment
    std::uint64_t memory = 0;
  };

  agent::JobStatus status;
  agent::NodeRanks node;
  std::vector<Use> uses;  // of node.ranks: each worker with its descendants
};

struct TopScreen {
  std::string time;  // of day; empty: not shown
  std::vector<double> load;
  int processors = 0;
  std::vector<TopJob> jobs;
};

enum class TopOrder { rank, care, cpu, memory, late };

struct TopStyle {
  std::size_t width = 80;
  std::size_t height = 0;  // lines; 0: any number, and no line of keys
  bool colours = false;
  bool output = false;  // the last line of output in the place of the operation
  TopOrder order = TopOrder::rank;
};

// At most `height` lines, each with its end and at most `width` characters. Text of programs is sanitized.
std::string top_text(const TopScreen& screen, const TopStyle& style);

// "rank", "care", ...: the values of --sort. None: there is no such order.
std::optional<TopOrder> top_order(std::string_view name);

// Changes the style as this key says. False: it is no key of top's.
bool apply_key(char key, TopStyle& style);

}  // namespace dlaunch::launcher
