// One message of each kind with every field filled, for tests of their encoding.
#pragma once

#include <string>
#include <vector>

#include "agent/control/messages.h"

namespace dlaunch::agent {

inline Failure a_failure() {
  Failure f;
  f.kind = FailureKind::worker;
  f.round = 4;
  f.node_rank = 1;
  f.host = "b";
  f.rank = 3;
  f.local_rank = 1;
  f.pid = 4711;
  f.status = {ExitStatus::How::signaled, 11, true};
  f.tail = "Traceback\nboom";
  f.tail_is_of_stdout = true;
  f.exception = "RuntimeError: boom";
  f.traceback = "Traceback\nboom";
  f.hint = "the kernel";
  f.remedy = "more memory";
  f.log_file = "/logs/stderr.log";
  f.unix_ms = 1'700'000'000'123;
  f.blames_peer = true;
  f.blamed_rank = 2;
  f.blamed_for = "left the group";
  f.while_stopping = true;
  f.ended_by_us = true;
  f.after = std::chrono::milliseconds(-5);
  return f;
}

inline RankProgress a_rank() {
  RankProgress rank{3, 9, 8, true, false, Condition::stopped, page::Operation::barrier};
  rank.on_device = page::Record::queued;
  rank.before = page::Operation::send;
  rank.peer = 5;
  rank.needs_all = true;
  rank.waited = std::chrono::seconds(2);
  rank.call_site = "train.py:42 in step";
  rank.how_ended = "returned 0";
  rank.pid = 4711;
  rank.state = "is running";
  rank.stack = "#0 step()";
  rank.link = {6, true, 5, std::chrono::seconds(1)};
  return rank;
}

inline std::vector<Message> one_of_each() {
  const Restart restart{2, std::chrono::seconds(3), a_failure(), std::chrono::seconds(1), false};
  World world{6,
              4,
              3,
              2,
              2,
              {"10.0.0.1", 29500},
              std::chrono::seconds(9),
              {restart},
              {{0, 1, 0, "a", 7, 0, 0, 1}, {1, 2, 1, "b", 8, 3, 4, 6}},
              1'700'000'000'000'001,
              {{1, 1}, {1, 2}}};
  Outcome outcome{139,       2,
                  true,      a_failure(),
                  "why not", {a_failure(), a_failure()},
                  7,         {{"exited with code 1", 5}},
                  {restart}, {"rank 3 never came"}};
  return {Join{"job",
               -1,
               8,
               "b",
               "0.1.0",
               7,
               true,
               false,
               6,
               "a",
               4,
               3,
               2,
               1,
               {restart},
               std::chrono::seconds(7),
               std::chrono::seconds(2),
               std::chrono::seconds(3),
               -7,
               false,
               "--spares=1",
               "trainer",
               "cannot start './x'",
               1'700'000'000'000'002},
          Heartbeat{-5, 6, {7, std::chrono::seconds(1)}},
          Welcome{false, true, 12, {-3, std::chrono::seconds(4)}, 1'700'000'000'000'003, -9},
          Failed{a_failure(), std::chrono::milliseconds(12)},
          Done{4},
          Stopped{4},
          Leave{a_failure()},
          Refused{"no", false, "yes"},
          NewWorld{world, {8, std::chrono::seconds(5)}},
          StopRound{4, "why", true, std::chrono::seconds(2)},
          End{outcome},
          Hello{"nonce"},
          Challenge{"nonce", "mac"},
          Proof{std::string("\0mac", 4)},
          Progress{4,
                   std::chrono::seconds(3),
                   true,
                   {{12, "default", 8, {{0, 2, 4}}, {a_rank()}}},
                   std::chrono::seconds(9),
                   std::chrono::seconds(7)},
          Notice{"waiting for node 2"},
          RestartHistory{2, {restart}},
          Preempt{4, "node 1 (host b)"},
          Ask{"job"},
          StackRequest{4, 3},
          PmiEnter{4, 2, {{"key", "value"}}, false, 3, true},
          PmiRelease{4, 2, {{"key", "value"}}, false},
          RanksRequest{3},
          RanksReport{{"b",
                       1,
                       4,
                       2.0,
                       {"rank 3 never came"},
                       {1.5},
                       0.75,
                       {{1, 2, 3, 4, 5}},
                       {{3,
                         4711,
                         "running",
                         "sccow.",
                         12.5,
                         1U << 20,
                         "is running",
                         "barrier #2",
                         true,
                         1.5,
                         7,
                         0.25,
                         "line",
                         "lines\n",
                         {1, 2, 3, 4, 5, 6}}}}},
          InspectionRequest{4},
          Inspected{4, {{12, "default_pg", 8, {{0, 1, 8}}, {{3, 9, 8, true}}}}},
          TimesReport{{2, std::chrono::seconds(3), {std::chrono::seconds(1), std::chrono::seconds(2)}}},
          ArrivalsReport{4,
                         {{{"tp",
                            3,
                            std::chrono::seconds(4),
                            {{1, 4711, 2, std::chrono::seconds(1), std::chrono::seconds(3)}}}},
                          {{12,
                            "default",
                            8,
                            2,
                            16,
                            {{32, 3, 4712, Duration(1), Duration(2), Duration(4), Duration(6), 99}}}},
                          7}},
          LatenessReport{
              4, {"rank 3 is slow", {{3, 4712, 5, std::chrono::seconds(1), std::chrono::seconds(2)}}}}};
}

}  // namespace dlaunch::agent
