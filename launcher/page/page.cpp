#include "launcher/page/page.h"

#include <cstdint>
#include <cstdio>
#include <map>

#include "store/base/sanitize.h"
#include "store/base/text.h"
#include "store/base/time.h"

namespace dlaunch::launcher {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : sanitize_for_terminal(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string duration(double seconds) {
  return to_words(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

std::string cell(const std::string& text) { return "<td>" + escaped(text) + "</td>"; }

std::string items(const std::vector<std::string>& sentences) {
  std::string out;
  for (const std::string& one : sentences) out += "<li>" + escaped(one) + "</li>\n";
  return out;
}

std::string facts_of(const agent::WorldView& view) {
  if (view.round < 0) return "";
  return pluralize(view.world_size, "rank") + " on " +
         pluralize(static_cast<int>(view.nodes.size()), "node") + ", round " + std::to_string(view.round) +
         ", " + std::to_string(view.restarts_used) + " of " + pluralize(view.max_restarts, "restart") +
         " used, for " + duration(view.age_s);
}

// What the coordinator knows of the whole job, or else what each node knows of its own ranks.
std::vector<std::string> findings_of(const agent::WorldView& view,
                                     const std::vector<agent::NodeRanks>& nodes) {
  if (!view.collectives.empty()) return view.collectives;
  std::vector<std::string> all;
  for (const agent::NodeRanks& node : nodes) {
    for (const std::string& sentence : node.findings)
      all.push_back(nodes.size() == 1 ? sentence : "on " + node.host + ": " + sentence);
  }
  return all;
}

std::vector<std::string> incidents_of(const agent::WorldView& view) {
  std::vector<std::string> all;
  for (const agent::IncidentView& one : view.incidents) {
    all.push_back((one.number > 0 ? "restart " + std::to_string(one.number) : std::string("loss")) +
                  " after " + duration(one.after_s) + ": " + one.text);
  }
  return all;
}

std::string node_rows(const agent::WorldView& view) {
  std::string out;
  for (const agent::NodeView& node : view.nodes) {
    const int last = node.first_rank + node.workers - 1;
    const std::string ranks = node.first_rank < 0 ? "-"
                              : node.workers == 1
                                  ? std::to_string(last)
                                  : std::to_string(node.first_rank) + "-" + std::to_string(last);
    out += "<tr>" + cell(node.node_rank < 0 ? "-" : std::to_string(node.node_rank)) + cell(node.host) +
           cell(node.state) + cell(ranks) + "</tr>\n";
  }
  return out;
}

std::string operation_of(const agent::RankView& rank) {
  if (rank.operation.empty()) return "-";
  return rank.inside ? "in " + rank.operation + " for " + duration(rank.operation_s)
                     : "after " + rank.operation + ", " + duration(rank.operation_s) + " ago";
}

std::string rank_rows(const std::vector<agent::NodeRanks>& nodes) {
  std::string out;
  for (const agent::NodeRanks& node : nodes) {
    for (const agent::RankView& rank : node.ranks) {
      out += "<tr>" + cell(std::to_string(rank.rank)) + cell(node.host) + cell(rank.state) +
             cell(operation_of(rank)) + cell(std::to_string(rank.memory >> 20U) + " MiB") +
             cell(rank.came_last == 0 ? "-" : duration(rank.late_s)) + cell(rank.last_output) + "</tr>\n";
    }
  }
  return out;
}

}  // namespace

std::string page_html(const agent::WorldView& view, const std::vector<agent::NodeRanks>& nodes) {
  const std::map<std::string_view, std::string> marks{
      {"job", escaped(view.job)},
      {"state", escaped(view.state)},
      {"facts", escaped(facts_of(view))},
      {"waiting", view.waiting_for.empty() ? "" : escaped("waiting for " + view.waiting_for)},
      {"findings", items(findings_of(view, nodes))},
      {"incidents", items(incidents_of(view))},
      {"nodes", node_rows(view)},
      {"ranks", rank_rows(nodes)},
  };
  std::string out;
  std::string_view rest = embedded_page_html;
  for (;;) {
    const std::size_t begin = rest.find("{{");
    out += rest.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::size_t end = rest.find("}}", begin);
    out += marks.at(rest.substr(begin + 2, end - begin - 2));
    rest.remove_prefix(end + 2);
  }
}

}  // namespace dlaunch::launcher
