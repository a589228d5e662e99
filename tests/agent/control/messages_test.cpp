#include "agent/control/messages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

namespace dlaunch::agent {
namespace {

Failure a_failure() {
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

std::vector<Message> one_of_each() {
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
              1'700'000'000'000'001};
  Outcome outcome{139,       2,
                  true,      a_failure(),
                  "why not", {a_failure(), a_failure()},
                  7,         {{"exited with code 1", 5}},
                  {restart}, {"rank 3 never came"}};
  return {Join{"job",
               1,
               2,
               3,
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
          Welcome{false, true, 12, {-3, std::chrono::seconds(4)}, 1'700'000'000'000'003},
          Failed{a_failure(), std::chrono::milliseconds(12)},
          Done{4},
          Stopped{4},
          Leave{a_failure()},
          Refused{"no", false},
          NewWorld{world, {8, std::chrono::seconds(5)}},
          StopRound{4, "why", true},
          End{outcome},
          Hello{"nonce"},
          Challenge{"nonce", "mac"},
          Proof{std::string("\0mac", 4)},
          Progress{4,
                   std::chrono::seconds(3),
                   true,
                   {{12,
                     "default",
                     8,
                     {{0, 2, 4}},
                     {{3, 9, 8, true, false, Condition::stopped, page::Operation::barrier, 5, true,
                       std::chrono::seconds(2), "returned 0"}}}}},
          Notice{"waiting for node 2"},
          RestartHistory{2, {restart}},
          Preempt{4, "node 1 (host b)"},
          Ask{"job"}};
}

TEST(Messages, AreThoseOfTheManualPage) {
  std::ifstream file(DLAUNCH_SOURCE_DIR "/man/dlaunch-protocol.7");
  std::stringstream page;
  page << file.rdbuf();
  const std::vector<std::string> names{"Join",    "Heartbeat",      "Welcome",   "Failed",   "Done",
                                       "Stopped", "Leave",          "Refused",   "NewWorld", "StopRound",
                                       "End",     "Hello",          "Challenge", "Proof",    "Progress",
                                       "Notice",  "RestartHistory", "Preempt",   "Ask"};
  const auto messages = one_of_each();
  ASSERT_EQ(messages.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int kind = static_cast<unsigned char>(encode(messages[i])[sizeof(std::uint32_t)]);
    const std::string entry = names[i] + " \" (" + std::to_string(kind) + ")";
    EXPECT_NE(page.str().find(entry), std::string::npos) << entry;
  }
  EXPECT_NE(page.str().find("protocol's version (" + std::to_string(protocol_version) + ")"),
            std::string::npos);
}

FrameReader coordinator_reader() { return FrameReader::from_coordinator(); }

TEST(Messages, EveryKindSurvivesTheWireByteByByte) {
  for (const Message& message : one_of_each()) {
    FrameReader reader = coordinator_reader();
    const std::string frame = encode(message);
    for (std::size_t i = 0; i < frame.size(); ++i) {
      auto early = reader.next();
      ASSERT_TRUE(early.ok());
      ASSERT_FALSE(early->has_value()) << "after " << i << " bytes";
      reader.append(as_byte_span(std::string_view(frame).substr(i, 1)));
    }
    auto whole = reader.next();
    ASSERT_TRUE(whole.ok());
    ASSERT_TRUE(whole->has_value());
    EXPECT_EQ(**whole, message);
  }
}

TEST(Messages, AMemberMustGreetAsThisVersionDoes) {
  FrameReader reader = FrameReader::from_member();
  std::string wrong(greeting);
  wrong.back() = 1;
  reader.append(as_byte_span(wrong));
  EXPECT_FALSE(reader.next().ok());

  FrameReader good = FrameReader::from_member();
  good.append(as_byte_span(greeting));
  good.append(as_byte_span(encode(Done{1})));
  auto message = good.next();
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(**message, Message(Done{1}));
}

TEST(Messages, ATooLongFrameIsRefusedBeforeItArrives) {
  FrameReader reader = coordinator_reader();
  reader.append(as_byte_span(encode(Done{1})));
  ASSERT_TRUE(reader.next().ok());
  reader.append(as_byte_span("\xff\xff\xff\xff"));
  auto refused = reader.next();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(), "malformed agent message: a frame of 4294967295 bytes is too long");
}

TEST(Messages, OtherProtocolIsRecognized) {
  FrameReader reader = coordinator_reader();
  reader.append(as_byte_span("HTTP/1.1 400 Bad Request\r\nServer: x\r\n"));
  auto refused = reader.next();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::refused);
  EXPECT_TRUE(
      refused.error().message().starts_with("what answers there is no dlaunch: it begins with 'HTTP/1.1 400"))
      << refused.error().message();
}

TEST(Messages, ProgressOfANodeFitsAFrame) {
  Progress progress;
  for (std::size_t i = 0; i < Progress::max_groups + 5; ++i) {
    GroupProgress group{i, std::string(48, 'x'), 1 << 20, {}, {}};
    group.ranks.assign(page::max_runs, {0, 1, 1});
    group.here.assign(100, {});
    progress.groups.push_back(group);
  }
  progress = bounded(std::move(progress));
  const std::string frame = encode(progress);
  EXPECT_LT(frame.size(), max_frame_from_member);
  const auto again = decode(as_byte_span(frame).subspan(4));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, Message(progress));
  std::size_t rows = 0;
  for (const GroupProgress& group : progress.groups) rows += group.here.size();
  EXPECT_EQ(rows, Progress::max_rows);
}

TEST(Messages, MoreThanAnOutcomeMayTellIsRefused) {
  Outcome outcome;
  outcome.others.assign(Outcome::max_others + 1, a_failure());
  EXPECT_FALSE(decode(as_byte_span(encode(End{outcome}).substr(4))).ok());
  outcome.others.clear();
  outcome.restarts.assign(Outcome::max_restarts + 1, {});
  EXPECT_FALSE(decode(as_byte_span(encode(End{outcome}).substr(4))).ok());
}

TEST(Messages, EveryTruncationAndExtensionOfABodyIsRefused) {
  for (const Message& message : one_of_each()) {
    const std::string body = encode(message).substr(4);
    for (std::size_t size = 0; size < body.size(); ++size)
      EXPECT_FALSE(decode(as_byte_span(std::string_view(body).substr(0, size))).ok());
    EXPECT_FALSE(decode(as_byte_span(body + "x")).ok());
  }
}

TEST(Messages, RandomBytesNeverDoHarm) {
  std::mt19937 random(42);
  const auto messages = one_of_each();
  for (int i = 0; i < 20'000; ++i) {
    std::string body = encode(messages[random() % messages.size()]).substr(4);
    for (unsigned flips = random() % 8 + 1; flips > 0; --flips)
      body[random() % body.size()] = static_cast<char>(random());
    auto decoded = decode(as_byte_span(body));
    // What decodes must encode again to what was read.
    if (decoded) {
      EXPECT_EQ(encode(*decoded).substr(4), body);
    }
  }
}

}  // namespace
}  // namespace dlaunch::agent
