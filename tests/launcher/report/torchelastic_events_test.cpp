#include "launcher/report/torchelastic_events.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using agent::Event;
using agent::EventKind;

TEST(TorchelasticEvents, HaveItsFields) {
  const EventFacts facts{"j", "default", "a", "train.py", "c10d", "a:29400"};
  Event failed{EventKind::failed, 2, 1, "b", 9, 4711};
  failed.text = "exited with code 3";
  failed.nodes = 2;
  failed.local_rank = 1;
  failed.role_rank = 9;
  failed.role_world_size = 16;
  failed.restarts = 1;
  EXPECT_EQ(torchelastic_event(failed, facts, 1500),
            R"({"name":"torchelastic.worker.status.FAILED","source":"WORKER","timestamp":1500,"metadata":{)"
            R"("run_id":"j","global_rank":9,"group_rank":1,"worker_id":"1","role":"default","hostname":"b",)"
            R"("state":"FAILED","total_run_time":0,"rdzv_backend":"c10d",)"
            R"("raw_error":"{\"message\":\"exited with code 3\"}","metadata":"{\"group_world_size\":2,)"
            R"(\"entry_point\":\"train.py\",\"local_rank\":[1],\"role_rank\":[9],\"role_world_size\":[16],)"
            R"(\"exit_code\":[null],\"worker_pid\":[4711]}","agent_restarts":1,"duration_ms":null}})"
            "\n");
  Event ended{EventKind::ended, 2};
  const std::string end = torchelastic_event(ended, facts, 1);
  EXPECT_NE(end.find(R"("name":"torchelastic.worker.status.SUCCEEDED","source":"AGENT")"), std::string::npos)
      << end;
  EXPECT_NE(end.find(R"("raw_error":null)"), std::string::npos) << end;
}

TEST(TorchelasticEvents, OfNodesAreThoseOfItsRendezvous) {
  const EventFacts facts{"j", "default", "a", "train.py", "c10d", "a:29400"};
  Event lost{EventKind::lost, 0, 1, "b"};
  lost.text = "it was silent";
  EXPECT_EQ(
      torchelastic_event(lost, facts, 1),
      R"({"name":"lost","run_id":"j","message":"it was silent","hostname":"b","pid":0,"node_state":"FAILED",)"
      R"("master_endpoint":"a:29400","rank":1,"local_id":null,"error_trace":""})"
      "\n");
}

TEST(TorchelasticEvents, ABackendIsNamedAsTorchrunNamesIt) {
  JobPlan plan;
  plan.program = "python3";
  plan.job.master = {"a", 29400};
  EXPECT_EQ(event_facts_of(plan).rdzv_backend, "static");
  EXPECT_EQ(event_facts_of(plan).entry_point, "python3");
  EXPECT_EQ(event_facts_of(plan).master_endpoint, "a:29400");
  plan.script = "train.py";
  EXPECT_EQ(event_facts_of(plan).entry_point, "train.py");
  plan.node.node_rank = -1;
  EXPECT_EQ(event_facts_of(plan).rdzv_backend, "c10d");
  plan.etcd_key = "/k";
  EXPECT_EQ(event_facts_of(plan).rdzv_backend, "etcd");
}

TEST(TorchelasticEvents, AFailureOfTheJobOrANodeHasAReason) {
  const EventFacts facts{"j", "default", "a", "train.py", "c10d", "a:29400"};
  Event event{EventKind::ended, 0};
  event.text = "rank 1 failed";
  EXPECT_NE(torchelastic_event(event, facts, 1).find(R"("state":"FAILED")"), std::string::npos);
  EXPECT_NE(torchelastic_event(event, facts, 1).find(R"("raw_error":"rank 1 failed")"), std::string::npos);
  event.kind = EventKind::left;
  EXPECT_NE(torchelastic_event(event, facts, 1).find(R"("node_state":"FAILED")"), std::string::npos);
  event.text.clear();
  EXPECT_NE(torchelastic_event(event, facts, 1).find(R"("node_state":"SUCCEEDED")"), std::string::npos);
}

TEST(TorchelasticEvents, AnyBytesGiveOneLineOfText) {
  const EventFacts facts{"j", "default", "a", "train.py", "c10d", "a:29400"};
  Event event{EventKind::failed, 0};
  event.text = "a\nb\xff";
  const std::string line = torchelastic_event(event, facts, 1);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::launcher
