// The status of a whole job, as its coordinator sees it and `dlaunch status --endpoint` shows it. A plain
// value, its JSON, and its table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::agent {

struct NodeView {
  int node_rank = -1;  // -1: it has none
  std::string host;
  int workers = 0;
  int first_rank = -1;  // of its workers; -1: none run
  std::string state;    // joined, running, done, stopping, leaving, spare

  bool operator==(const NodeView&) const = default;
};

struct IncidentView {
  int number = 0;  // of the restart; 0: it did not count
  double after_s = 0;
  std::string text;

  bool operator==(const IncidentView&) const = default;
};

struct WorldView {
  std::string job;
  std::string endpoint;     // of the coordinator that reports this
  std::string state;        // standby (another may lead), gathering, running, stopping, ending, ended
  std::string waiting_for;  // what is missing; empty: nothing
  int round = -1;           // -1: none has been formed
  int world_size = 0;
  int min_nodes = 0;
  int max_nodes = 0;
  int restarts_used = 0;
  int max_restarts = 0;
  double age_s = 0;  // since the first round began
  std::vector<NodeView> nodes;
  std::vector<IncidentView> incidents;  // the last ones, in order
  // Who has not come to which collective, by what the nodes have told last; empty where they move, or do not
  // tell (--hang-timeout).
  std::vector<std::string> collectives;

  bool operator==(const WorldView&) const = default;
};

// One JSON object and a line end.
std::string to_json(const WorldView& view);
// Missing fields keep their defaults. Returns an error if the text is not such an object.
Result<WorldView> world_view_from_json(std::string_view text);
// A table for the console. Foreign text is sanitized.
std::string table(const WorldView& view);
// In Prometheus' text format 0.0.4.
std::string metrics(const WorldView& view);

}  // namespace dlaunch::agent
