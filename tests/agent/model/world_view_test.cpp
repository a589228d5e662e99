#include "agent/model/world_view.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

WorldView a_view() {
  WorldView view;
  view.job = "run";
  view.endpoint = "a:29400";
  view.state = "gathering";
  view.waiting_for = "1 more node of 3 (here: a, b)";
  view.round = 4;
  view.world_size = 6;
  view.min_nodes = 2;
  view.max_nodes = 3;
  view.restarts_used = 1;
  view.max_restarts = 5;
  view.age_s = 90;
  view.nodes = {{0, "a", 2, 0, "running"}, {1, "b", 1, 2, "done"}, {-1, "c\x1b[2J", 2, -1, "spare"}};
  view.incidents = {{1, 30, "rank 3 exited with code 1"}, {0, 60, "node 1 (host b) was lost"}};
  view.collectives = {"rank 3 never came"};
  return view;
}

TEST(WorldView, SurvivesItsJson) {
  EXPECT_EQ(*world_view_from_json(to_json(a_view())), a_view());
  EXPECT_FALSE(world_view_from_json("{}").ok());
  EXPECT_FALSE(world_view_from_json("[1").ok());
  EXPECT_EQ(world_view_from_json(R"({"job":3,"nodes":[1,{}],"round":"x"})")->nodes.size(), 1U);
}

TEST(WorldView, JsonHasTheseNamesInThisOrder) {
  EXPECT_EQ(
      to_json(a_view()),
      R"j({"job":"run","endpoint":"a:29400","state":"gathering","waiting_for":"1 more node of 3 (here: a, b)",)j"
      R"("round":4,"world_size":6,"min_nodes":2,"max_nodes":3,"restarts_used":1,"max_restarts":5,"age":90.0,)"
      R"("nodes":[{"node_rank":0,"host":"a","workers":2,"first_rank":0,"state":"running"},)"
      R"({"node_rank":1,"host":"b","workers":1,"first_rank":2,"state":"done"},)"
      R"({"node_rank":-1,"host":"c\u001b[2J","workers":2,"first_rank":-1,"state":"spare"}],)"
      R"("incidents":[{"number":1,"after":30.0,"text":"rank 3 exited with code 1"},)"
      R"j({"number":0,"after":60.0,"text":"node 1 (host b) was lost"}],"collectives":["rank 3 never came"]})j"
      "\n");
}

TEST(WorldView, FieldsOfAnotherTypeAreLeftOut) {
  const auto view = world_view_from_json(
      R"({"job":"x","round":"4","nodes":[1,{"host":5,"workers":3}],"incidents":{},"collectives":[1,"a"]})");
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->round, -1);
  ASSERT_EQ(view->nodes.size(), 1U);
  EXPECT_EQ(view->nodes.front(), (NodeView{-1, "", 3, -1, ""}));
  EXPECT_TRUE(view->incidents.empty());
  EXPECT_EQ(view->collectives, std::vector<std::string>{"a"});
}

TEST(WorldView, IsCountedForScrapers) {
  const std::string text = metrics(a_view());
  for (const char* line :
       {"dlaunch_job_round 4\n", "dlaunch_job_world_size 6\n", "dlaunch_job_running 0\n",
        "dlaunch_job_waiting 1\n", "dlaunch_job_restarts_used 1\n", "dlaunch_job_nodes{state=\"spare\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(WorldView, IsATableForPeople) {
  EXPECT_EQ(table(a_view()),
            "job run at a:29400: gathering, round 4 with 6 workers, 1 of 5 restarts used, for 1 min 30 s\n"
            "  node 0    a                    running   ranks 0-1\n"
            "  node 1    b                    done      rank 2\n"
            "  node ?    c                    spare\n"
            "waiting for 1 more node of 3 (here: a, b)\n"
            "restart 1 after 30 s: rank 3 exited with code 1\n"
            "loss after 1 min 0 s: node 1 (host b) was lost\n"
            "rank 3 never came\n");
}

}  // namespace
}  // namespace dlaunch::agent
