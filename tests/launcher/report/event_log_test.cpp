#include "launcher/report/event_log.h"

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
