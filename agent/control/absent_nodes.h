// Nodes that fell silent: their agents may still run, and return after the job has ended. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/job.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class AbsentNodes {
 public:
  // Its last message came at `last_heard`.
  void add(AgentId agent, std::string name, TimePoint last_heard) {
    nodes_.insert_or_assign(agent, Node{std::move(name), last_heard});
  }
  // It has come back.
  void remove(AgentId agent) { nodes_.erase(agent); }

  // The names of the nodes that still search for the job at `now`: an agent does that for `patience`.
  [[nodiscard]] std::vector<std::string> looking(TimePoint now, Duration patience) const {
    std::vector<std::string> names;
    for (const auto& [agent, node] : nodes_) {
      if (now < node.last_heard + patience) names.push_back(node.name);
    }
    return names;
  }

 private:
  struct Node {
    std::string name;
    TimePoint last_heard;
  };
  std::map<AgentId, Node> nodes_;
};

}  // namespace dlaunch::agent
