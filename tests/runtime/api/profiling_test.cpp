// The profiling callback and the trace file.

#include "dlaunch/profiling.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"
#include "runtime/group/profiler.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/runtime/group/thread_worlds.h"

namespace dlaunch::internal {
namespace {

using test::error_contains;
using test::in_world;

TEST(Profiling, ReportsBeginAndEndOfEachOperation) {
  std::mutex mutex;
  std::vector<std::tuple<std::string, int, std::uint64_t, bool>> ends;
  std::map<std::uint64_t, ProfilingEvent::Kind> open;
  set_profiling_callback([&](const ProfilingEvent& event) {
    const std::lock_guard lock(mutex);
    if (event.kind == ProfilingEvent::Kind::begin) {
      EXPECT_TRUE(open.emplace(event.id, event.kind).second);
      return;
    }
    EXPECT_EQ(open.erase(event.id), 1U);
    EXPECT_EQ(event.group, "default");
    EXPECT_EQ(event.bytes, event.name.ends_with("barrier") ? 0U : 12U);
    ends.emplace_back(event.name, event.rank, event.sequence, event.success);
  });
  in_world(2, [](int rank) {
    std::vector<float> values(3);
    CollectiveOptions async;
    async.async_op = true;
    all_reduce(Tensor::of(values), ReduceOp::sum, async).wait();
    barrier();
    const Work sent = isend(Tensor::of(values), 1 - rank);
    recv(Tensor::of(values), 1 - rank);
    sent.wait();
    monitored_barrier();
  });
  set_profiling_callback(nullptr);
  EXPECT_TRUE(open.empty());
  std::ranges::sort(ends);
  using End = std::tuple<std::string, int, std::uint64_t, bool>;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(std::ranges::count(ends, End("all_reduce", rank, 1, true)), 1);
    EXPECT_EQ(std::ranges::count(ends, End("barrier", rank, 2, true)), 1);
    EXPECT_EQ(std::ranges::count(ends, End("monitored_barrier", rank, 0, true)), 1);
    EXPECT_EQ(std::ranges::count_if(ends,
                                    [rank](const End& end) {
                                      const std::string& name = std::get<0>(end);
                                      return std::get<1>(end) == rank && (name == "send" || name == "recv");
                                    }),
              2);
  }
}

TEST(Trace, IsATimelineInJson) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("dlaunch_trace_test." + std::to_string(getpid()));
  start_trace(path);
  in_world(2, [](int) {
    std::vector<float> values(3);
    all_reduce(Tensor::of(values));
  });
  stop_trace();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_TRUE(text.str().starts_with("[\n{\"ph\": \"M\"")) << text.str();
  EXPECT_TRUE(text.str().ends_with("}\n]\n")) << text.str();
  EXPECT_NE(text.str().find("\"name\": \"all_reduce\", \"cat\": \"dlaunch\", \"pid\": "), std::string::npos);
  EXPECT_NE(text.str().find("\"bytes\": 12, \"success\": true}}"), std::string::npos);
  EXPECT_TRUE(error_contains([] { start_trace("/nowhere/at/all"); }, "the trace cannot be written to"));
}

// Names are bytes; JSON is text.
TEST(Trace, IsJsonWhateverAGroupIsCalled) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("dlaunch_trace_name_test." + std::to_string(getpid()));
  start_trace(path);
  in_world(1, [](int) {
    NewGroupOptions options;
    options.name = "\xc3\xa9 \xff \xc3 \xe2\x82\xac \xed\xa0\x80 \"\n\xf0\x9f\x98\x80\xe2\x82";
    new_group({}, options).barrier();
  });
  stop_trace();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_TRUE(test::contains(text.str(),
                             "\"name\": \"group \xc3\xa9 \\ufffd \\ufffd \xe2\x82\xac \\ufffd\\ufffd\\ufffd "
                             "\\\"\\u000a\xf0\x9f\x98\x80\\ufffd\\ufffd\""))
      << text.str();
}

}  // namespace
}  // namespace dlaunch::internal
