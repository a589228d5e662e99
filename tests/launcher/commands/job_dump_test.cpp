#include "launcher/commands/job_dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/commands/pickle.h"
#include "tests/agent/model/made_page.h"
#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::launcher {
namespace {

using agent::Condition;
using agent::MadePage;
using agent::second;
using page::Operation;

WorkerDump worker(const MadePage& page, Condition condition = Condition::runs) {
  const auto record = agent::parse_worker_page(page.bytes(), page.bytes());
  WorkerDump worker;
  worker.status = {record->rank, record->rank, 100 + record->rank, "running", ""};
  worker.pid = 100 + record->rank;
  worker.seen = {*record, condition};
  return worker;
}

JobDump empty_dump(int world_size) {
  JobDump dump;
  dump.job.job = "j";
  dump.job.agent = 99;
  dump.job.host = "a";
  dump.job.nnodes = 1;
  dump.job.state = "running";
  dump.job.state_age_s = 12;
  dump.job.world_size = world_size;
  dump.now = TimePoint(Duration(40 * second));
  return dump;
}

// Rank 0 waits in the second all_reduce since 31 s, rank 1 has only done the first.
JobDump stuck_dump() {
  JobDump dump = empty_dump(2);
  for (int rank = 0; rank < 2; ++rank) {
    MadePage page(rank, 2);
    page.add_group(1, "default");
    page.end(page.enter(1, Operation::all_reduce, 1, 8 * second - 5'000'000), 8 * second);
    if (rank == 0) page.enter(1, Operation::all_reduce, 2, 9 * second);
    dump.workers.push_back(worker(page));
  }
  return dump;
}

TEST(JobDump, TextShowsWhereEachRankIs) {
  EXPECT_EQ(to_text(stuck_dump()),
            "job j (agent 99), node 0 of 1 on host a, round 0, running for 12 s\n"
            "rank 1 never entered all_reduce #2 of group default; the other one has waited 31 s\n"
            "\n"
            "RANK  PID  PROCESS  LAST MOVE  GROUP    IN                   DONE\n"
            "0     100  running  31 s ago   default  all_reduce #2, 31 s  1\n"
            "1     101  running  32 s ago   default  -                    1\n");
}

TEST(JobDump, ShowsHowFarTheGpusAre) {
  JobDump dump = empty_dump(2);
  for (int rank = 0; rank < 2; ++rank) {
    MadePage page(rank, 2);
    page.add_group(1, "default");
    page.enter(1, Operation::all_reduce, 1, 9 * second).on_device =
        rank == 0 ? page::Record::begun : page::Record::queued;
    page.add_group(2, "other");
    page::Record& message = page.enter(2, Operation::recv, 1, 10 * second);
    message.peer = 1 - rank;
    message.on_device = page::Record::queued;
    dump.workers.push_back(worker(page));
  }
  EXPECT_EQ(
      to_text(dump),
      "job j (agent 99), node 0 of 1 on host a, round 0, running for 12 s\n"
      "rank 1 has called all_reduce #1 of group default, but its GPU has not come to it: it still works on "
      "what the program gave it before; the other one waits for it on its GPU, for up to 31 s\n"
      "\n"
      "RANK  PID  PROCESS  LAST MOVE  GROUP    IN                                      DONE\n"
      "0     100  running  30 s ago   default  all_reduce #1, on the GPU, 31 s         0\n"
      "0     100  running  30 s ago   other    recv 0<-1, queued on the GPU, 30 s      0\n"
      "1     101  running  30 s ago   default  all_reduce #1, queued on the GPU, 31 s  0\n"
      "1     101  running  30 s ago   other    recv 1<-0, queued on the GPU, 30 s      0\n");
}

TEST(JobDump, ShowsOperationsThatAreNoCollectives) {
  using Operations = std::vector<std::pair<Operation, std::string>>;
  for (const auto& [operation, name] : Operations{{Operation::monitored_barrier, "monitored_barrier"},
                                                  {Operation::new_group, "new_group"},
                                                  {Operation::init_device_mesh, "init_device_mesh"}}) {
    JobDump dump = empty_dump(2);
    MadePage page(0, 2);
    page.add_group(1, "default");
    page.end(page.enter(1, Operation::all_reduce, 1, 8 * second), 9 * second);
    page.enter(1, operation, 1, 10 * second);
    dump.workers.push_back(worker(page));
    EXPECT_NE(to_text(dump).find("  default  " + name + ", 30 s"), std::string::npos) << to_text(dump);
    const auto entry = nlohmann::json::parse(to_json(dump))["workers"][0]["flight"]["entries"][1];
    EXPECT_EQ(entry["profiling_name"], "gloo:" + name);
    EXPECT_EQ(entry["collective_seq_id"], 0);
    EXPECT_EQ(entry["is_p2p"], false);
    EXPECT_EQ(entry["state"], "started");
  }
}

TEST(JobDump, WorkersWithoutARecordAndThreads) {
  JobDump dump = empty_dump(1);
  WorkerDump plain;
  plain.status = {0, 0, 5, "running", ""};
  plain.pid = 5;
  ThreadDump thread;
  thread.tid = 5;
  thread.name = "py\x1b[31mthon";
  thread.state = 'S';
  thread.waits_in = "futex_wait_queue";
  thread.system_call = "202 0x7f";
  thread.kernel_stack = {"futex_wait+0x1", "do_futex+0x2"};
  plain.threads = {thread};
  plain.debugger = "gdb";
  plain.stacks = "#0 one\n#1 two\n";
  plain.advice = "no stacks: gdb is not installed";
  dump.workers = {plain};
  EXPECT_EQ(to_text(dump),
            "job j (agent 99), node 0 of 1 on host a, round 0, running for 12 s\n"
            "\n"
            "RANK  PID  PROCESS  LAST MOVE  GROUP  IN                   DONE\n"
            "0     5    running  -          -      nothing is recorded  -\n"
            "\n"
            "rank 0, process 5\n"
            "  gdb:\n"
            "    #0 one\n"
            "    #1 two\n"
            "  thread 5 (python): S, in futex_wait_queue, system call 202\n"
            "    futex_wait+0x1\n"
            "    do_futex+0x2\n"
            "\n"
            "no stacks: gdb is not installed\n");
  const auto json = nlohmann::json::parse(to_json(dump));
  EXPECT_FALSE(json["workers"][0].contains("flight"));
  EXPECT_EQ(json["workers"][0]["threads"][0]["wchan"], "futex_wait_queue");
  EXPECT_EQ(json["workers"][0]["threads"][0]["syscall"], "202 0x7f");
  EXPECT_EQ(json["workers"][0]["stacks"], "#0 one\n#1 two\n");
}

TEST(JobDump, OfSeveralNodesItMentionsTheOthers) {
  JobDump dump = stuck_dump();
  dump.job.nnodes = 2;
  EXPECT_NE(to_text(dump).find("\n(for the ranks of other nodes, run dlaunch dump on their hosts)\n"),
            std::string::npos);
}

TEST(JobDump, IncludesTheCoordinatorsFindingsOnOtherNodes) {
  JobDump dump = stuck_dump();
  dump.job.nnodes = 2;
  dump.whole_job = {"rank 3 never came"};
  EXPECT_NE(to_text(dump).find("\non all nodes:\n  rank 3 never came\n\nRANK"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(dump))["job_findings"][0], "rank 3 never came");
}

TEST(JobDump, ShowsRankThatWaitsForAMessage) {
  JobDump dump = empty_dump(2);
  MadePage page(1, 2);
  page.add_group(1, "default");
  page.enter(1, Operation::send, 1, 5 * second).state = page::Record::completed;
  page.enter(1, Operation::recv, 2, 10 * second).peer = 0;
  page.enter(1, Operation::recv, 3, 20 * second).peer = 0;
  dump.workers.push_back(worker(page));
  EXPECT_NE(to_text(dump).find("\n1     101  running  20 s ago   default  recv 1<-0, 30 s  0\n"),
            std::string::npos)
      << to_text(dump);
}

TEST(JobDump, ARankThatHasLeftItsGroupsIsInNone) {
  JobDump dump = empty_dump(1);
  MadePage page(0, 1);
  page.add_group(1, "default").state = page::Group::left;
  dump.workers.push_back(worker(page, Condition::ended));
  EXPECT_NE(to_text(dump).find("\n0     100  ended    40 s ago   none   -   -\n"), std::string::npos)
      << to_text(dump);
}

TEST(JobDump, ARankThatHasNotComeToItsFirstGroupIsNamed) {
  JobDump dump = empty_dump(2);
  MadePage page(0, 2);
  page.raw().header.forming_ns = 10 * second;
  dump.workers.push_back(worker(page));
  WorkerDump without_page;
  without_page.status = {1, 1, 101, "running", ""};
  without_page.pid = 101;
  dump.workers.push_back(without_page);
  const std::string text = to_text(dump);
  EXPECT_NE(text.find("\nrank 0 has been in init_process_group for 30 s; rank 1 has not come\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n0     100  running  40 s ago   none   init_process_group, 30 s  -\n"),
            std::string::npos)
      << text;
}

TEST(JobDump, JsonHasTheFieldsOfAFlightRecorder) {
  JobDump dump = empty_dump(4);
  MadePage page(1, 4);
  page.raw().header.unix_minus_steady_ns = 1'000 * second;
  page.add_group(1, "default");
  page.raw().groups[0].runs = {{{0, 1, 4}}};
  page.end(page.enter(1, Operation::all_reduce, 1, 2 * second), 2 * second + 3'000'000);
  page.end(page.enter(1, Operation::broadcast, 2, 3 * second), 4 * second, false);
  page.enter(1, Operation::barrier, 3, 5 * second).input = 0;
  page.enter(1, Operation::all_reduce, 4, 6 * second);
  page.raw().records[2].output = 0;
  page.enter(1, Operation::recv, 9, 7 * second).peer = -1;
  page::Record& message = page.enter(1, Operation::send, 10, 8 * second);
  message.peer = 2;
  page.call_at(message, 42, "step");
  dump.workers.push_back(worker(page));
  const auto flight = nlohmann::json::parse(to_json(dump))["workers"][0]["flight"];
  EXPECT_EQ(flight["version"], "2.10");
  EXPECT_EQ(flight["rank"], 1);
  EXPECT_EQ(
      flight["pg_config"],
      (nlohmann::json{{"default", {{"name", "default"}, {"desc", "gloo"}, {"ranks", "[0, 1, 2, 3]"}}}}));
  EXPECT_EQ(flight["pg_status"], (nlohmann::json{{"1",
                                                  {{"last_enqueued_collective", 4},
                                                   {"last_started_collective", 3},
                                                   {"last_completed_collective", 1}}}}));
  const auto& entries = flight["entries"];
  ASSERT_EQ(entries.size(), 6U);
  EXPECT_EQ(entries[0], (nlohmann::json{{"record_id", 0},
                                        {"pg_id", 1},
                                        {"process_group", {"default", "gloo"}},
                                        {"collective_seq_id", 1},
                                        {"p2p_seq_id", 0},
                                        {"op_id", 1},
                                        {"profiling_name", "gloo:all_reduce"},
                                        {"time_created_ns", 1'002 * second},
                                        {"time_discovered_started_ns", 1'002 * second},
                                        {"time_discovered_completed_ns", 1'002 * second + 3'000'000},
                                        {"duration_ms", 3.0},
                                        {"input_sizes", {{8}}},
                                        {"input_dtypes", {"Float"}},
                                        {"output_sizes", {{8}}},
                                        {"output_dtypes", {"Float"}},
                                        {"state", "completed"},
                                        {"retired", true},
                                        {"timeout_ms", 60'000},
                                        {"is_p2p", false},
                                        {"frames", nlohmann::json::array()}}));
  EXPECT_EQ(entries[1]["state"], "started") << "and failed";
  EXPECT_EQ(entries[1]["retired"], true);
  EXPECT_EQ(entries[5]["frames"],
            (nlohmann::json{{{"name", "step"}, {"filename", "/srv/train.py"}, {"line", 42}}}));
  EXPECT_EQ(entries[2]["state"], "started");
  EXPECT_EQ(entries[2]["retired"], false);
  EXPECT_EQ(entries[2]["input_sizes"], nlohmann::json::array());
  EXPECT_EQ(entries[3]["state"], "scheduled") << "behind the barrier";
  EXPECT_TRUE(entries[3]["time_discovered_started_ns"].is_null());
  EXPECT_EQ(entries[4]["profiling_name"], "gloo:recv 1<-?");
  EXPECT_EQ(entries[4]["state"], "started");
  EXPECT_EQ(entries[4]["p2p_seq_id"], 9);
  EXPECT_EQ(entries[5]["profiling_name"], "gloo:send 1->2");

  const std::vector<FlightFile> files = flight_files(dump);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].rank, 1);
  EXPECT_EQ(files[0].name, "dlaunch_rank_1");
  EXPECT_TRUE(files[0].content.starts_with("\x80\x02}(")) << "a dict, pickled";
  EXPECT_EQ(files[0].content.find("recv"), std::string::npos) << "of messages nothing is told";
}

TEST(JobDump, OperationsHaveTheNamesThatTorchfrtraceKnows) {
  JobDump dump = empty_dump(2);
  MadePage page(0, 2);
  page.add_group(1, "default");
  std::uint64_t sequence = 0;
  for (const Operation operation : {Operation::all_gather_into_tensor, Operation::reduce_scatter_tensor,
                                    Operation::all_reduce_coalesced, Operation::scatter})
    page.enter(1, operation, ++sequence, 2 * second);
  page.enter(1, Operation::new_group, 1, 3 * second);
  dump.workers.push_back(worker(page));
  const std::string content = flight_files(dump).at(0).content;
  for (const char* const name :
       {"gloo:_all_gather_base", "gloo:_reduce_scatter_base", "gloo:allreduce_coalesced", "gloo:scatter"})
    EXPECT_NE(content.find(name), std::string::npos) << name;
  EXPECT_EQ(content.find("new_group"), std::string::npos);
}

TEST(Pickle, IsWhatPythonLoads) {
  using Json = nlohmann::ordered_json;
  EXPECT_EQ(pickled(Json::object()), std::string("\x80\x02}."));
  EXPECT_EQ(pickled(Json{1, nullptr, true}), std::string("\x80\x02](J\1\0\0\0N\x88\x65.", 13));
  EXPECT_EQ(pickled(Json{{"a", -1}}), std::string("\x80\x02}(X\1\0\0\0aJ\xff\xff\xff\xff"
                                                  "u.",
                                                  17));
  EXPECT_EQ(pickled(Json(INT64_C(1) << 40)), std::string("\x80\x02\x8a\x08\0\0\0\0\0\1\0\0.", 13));
  EXPECT_EQ(pickled(Json(UINT64_MAX)),
            std::string("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0.", 14));
  EXPECT_EQ(pickled(Json(1.5)), std::string("\x80\x02G\x3f\xf8\0\0\0\0\0\0.", 12));
  EXPECT_EQ(pickled(Json("\xff")), std::string("\x80\x02X\3\0\0\0\xef\xbf\xbd.", 11)) << "no UTF-8";
}

}  // namespace
}  // namespace dlaunch::launcher
