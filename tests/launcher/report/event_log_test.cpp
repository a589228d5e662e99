#include "launcher/report/event_log.h"

#include "launcher/report/torchelastic_events.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dlaunch::launcher {
namespace {

using agent::Event;
using agent::EventKind;

TEST(EventLog, WritesKnownFieldsOnly) {
  Event formed{EventKind::world, 3};
  formed.nodes = 2;
  formed.world_size = 16;
  EXPECT_EQ(event_json(formed, "j", 1.5),
            "{\"time\":1.5,\"event\":\"world\",\"job\":\"j\",\"round\":3,\"nodes\":2,\"world_size\":16}\n");
  const Event failed{EventKind::failed, 0, 1, "b", 9, 4711, 0, 0, 0, "exited with \xff"};
  EXPECT_EQ(event_json(failed, "j", 2),
            "{\"time\":2.0,\"event\":\"failed\",\"job\":\"j\",\"round\":0,\"node_rank\":1,\"host\":\"b\","
            "\"rank\":9,"
            "\"pid\":4711,\"text\":\"exited with \xEF\xBF\xBD\"}\n");
}

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

TEST(EventLog, IsAppendedTo) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("dlaunch_events." + std::to_string(getpid()));
  for (int i = 0; i < 2; ++i) {
    auto log = EventLog::open(path);
    ASSERT_TRUE(log.ok());
    log->write(event_line({EventKind::ended}, "j"));
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  const std::string both = text.str();
  EXPECT_EQ(std::count(both.begin(), both.end(), '\n'), 2);
  EXPECT_FALSE(EventLog::open("/nowhere/e").ok());
}

}  // namespace
}  // namespace dlaunch::launcher
