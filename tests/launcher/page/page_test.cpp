#include "launcher/page/page.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

agent::WorldView a_view() {
  agent::WorldView view;
  view.job = "run";
  view.state = "running";
  view.round = 1;
  view.world_size = 2;
  view.max_restarts = 3;
  view.restarts_used = 1;
  view.age_s = 90;
  view.nodes = {{0, "a", 2, 0, "running"}, {-1, "b", 1, -1, "spare"}};
  view.incidents = {{1, 30, "rank 1 exited with code 1"}};
  return view;
}

agent::NodeRanks a_node() {
  agent::NodeRanks node;
  node.host = "a";
  node.findings = {"rank 1 never came"};
  agent::RankView rank;
  rank.rank = 0;
  rank.state = "running";
  rank.operation = "barrier #2";
  rank.inside = true;
  rank.operation_s = 12;
  rank.memory = 5U << 20;
  rank.last_output = "epoch 3";
  node.ranks = {rank};
  return node;
}

TEST(Page, HasItsTablesWithoutScript) {
  const std::string page = page_html(a_view(), {a_node()});
  for (const char* part :
       {"<title>run - dlaunch</title>", "2 ranks on 2 nodes, round 1, 1 of 3 restarts used, for 1 min 30 s",
        "<li>rank 1 never came</li>", "<li>restart 1 after 30 s: rank 1 exited with code 1</li>",
        "<tr><td>0</td><td>a</td><td>running</td><td>0-1</td></tr>",
        "<tr><td>-</td><td>b</td><td>spare</td><td>-</td></tr>",
        "<tr><td>0</td><td>a</td><td>running</td><td>in barrier #2 for 12 s</td><td>5 MiB</td><td>-</td>"
        "<td>epoch 3</td></tr>"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  EXPECT_EQ(page.find("{{"), std::string::npos) << "a mark was not replaced";
}

TEST(Page, TheCoordinatorKnowsMoreThanANode) {
  agent::WorldView view = a_view();
  view.collectives = {"rank 5 never came"};
  const std::string page = page_html(view, {a_node()});
  EXPECT_NE(page.find("rank 5 never came"), std::string::npos);
  EXPECT_EQ(page.find("rank 1 never came"), std::string::npos);
}

TEST(Page, OfSeveralNodesEachFindingHasItsHost) {
  EXPECT_NE(page_html(a_view(), {a_node(), a_node()}).find("<li>on a: rank 1 never came</li>"),
            std::string::npos);
}

TEST(Page, EscapesTextOfUsers) {
  const std::string hostile = "\"><script>alert('&')</script>{{job}}\x1b[2J";
  agent::WorldView view = a_view();
  view.job = view.state = view.waiting_for = hostile;
  view.nodes[0].host = view.nodes[0].state = view.incidents[0].text = hostile;
  agent::NodeRanks node = a_node();
  node.host = node.findings[0] = hostile;
  node.ranks[0].state = node.ranks[0].operation = node.ranks[0].last_output = hostile;
  const std::string page = page_html(view, {node});
  EXPECT_EQ(page.find("<script>"), std::string::npos) << page;
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_NE(page.find("&quot;&gt;&lt;script&gt;alert('&amp;')&lt;/script&gt;{{job}}"), std::string::npos);
}

TEST(Page, NeedsNothingFromElsewhereAndNoInlineCode) {
  const std::string all = std::string(embedded_page_html) + std::string(embedded_page_css);
  for (const char* part : {"http:", "https:", "style=", "onclick", "<style", "url("})
    EXPECT_EQ(all.find(part), std::string::npos) << part;
  for (const char* part : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
    EXPECT_EQ(embedded_page_js.find(part), std::string_view::npos) << part;
}

}  // namespace
}  // namespace dlaunch::launcher
