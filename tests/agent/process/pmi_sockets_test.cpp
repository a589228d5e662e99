#include "agent/process/pmi_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "store/loop/uv_loop.h"

namespace dlaunch::agent {
namespace {

// Local rank 1 of round 4, whose end of the connection this test holds.
class PmiSocketsTest : public ::testing::Test, public PmiWireHandler {
 protected:
  PmiSocketsTest() {
    sockets_.set_handler(*this);
    end_ = sockets_.open(key_);
  }
  ~PmiSocketsTest() override { ::close(end_); }
  void on_pmi_bytes(ProcKey key, std::string_view bytes) override {
    EXPECT_EQ(key, key_);
    got_ += bytes;
    loop_.stop();
  }
  void on_pmi_closed(ProcKey key) override {
    closed_ = key;
    loop_.stop();
  }
  // What the worker reads; "end" if the agent has closed the connection.
  [[nodiscard]] std::string read() const {
    char text[100];
    const ssize_t size = recv(end_, text, sizeof text, MSG_DONTWAIT);
    return size == 0 ? "end" : size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
  }

  UvLoop loop_;
  UvPoller poller_{loop_};
  PmiSockets sockets_{poller_};
  const ProcKey key_{4, 1};
  int end_ = -1;
  std::string got_;
  std::optional<ProcKey> closed_;
};

TEST_F(PmiSocketsTest, BytesGoInBothDirections) {
  ASSERT_EQ(write(end_, "ask\n", 4), 4);
  loop_.run();
  EXPECT_EQ(got_, "ask\n");
  sockets_.send(key_, "answer\n");
  EXPECT_EQ(read(), "answer\n");
  sockets_.send({4, 0}, "for another\n");
  EXPECT_EQ(read(), "nothing");
}

TEST_F(PmiSocketsTest, TheWorkersEndWaitsAndIsClosedByAnExec) {
  EXPECT_EQ(fcntl(end_, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(fcntl(end_, F_GETFD), FD_CLOEXEC) << "the keeper lets one worker inherit it";
}

TEST_F(PmiSocketsTest, AWorkerThatDoesNotReadIsDropped) {
  const std::string much(1U << 20, 'x');
  sockets_.send(key_, much);
  std::string all;
  for (std::string part = read(); part != "end"; part = read()) {
    ASSERT_NE(part, "nothing");
    all += part;
  }
  EXPECT_LT(all.size(), much.size());
}

TEST_F(PmiSocketsTest, ANewRoundEndsTheConnectionsOfTheLast) {
  const int other = sockets_.open({5, 0});
  EXPECT_EQ(read(), "end");
  ::close(other);
}

TEST_F(PmiSocketsTest, AClosedConnectionIsForgotten) {
  sockets_.close(key_);
  EXPECT_EQ(read(), "end");
  sockets_.send(key_, "late\n");
  sockets_.close(key_);
}

TEST_F(PmiSocketsTest, AnEndOfTheOtherSideIsReported) {
  shutdown(end_, SHUT_WR);
  loop_.run();
  EXPECT_EQ(closed_, key_);
}

TEST_F(PmiSocketsTest, WhatHasComeCanBeTakenAtOnce) {
  sockets_.take_now(key_);
  EXPECT_EQ(got_, "");
  ASSERT_EQ(write(end_, "ask\n", 4), 4);
  sockets_.take_now(key_);
  EXPECT_EQ(got_, "ask\n");
  shutdown(end_, SHUT_WR);
  sockets_.take_now(key_);
  EXPECT_EQ(closed_, key_);
  sockets_.take_now(key_);
}

TEST_F(PmiSocketsTest, AServerThatIsMissingIsNamed) {
  PmiSockets sockets(poller_, "/no/such/program");
  EXPECT_EQ(sockets.start_pmix({4, 2}), "/no/such/program: No such file or directory");
}

// A program that reads its connection, and ends with it.
TEST_F(PmiSocketsTest, TheServerHasAConnectionAndEndsWithIt) {
  const std::string program = testing::TempDir() + "pmix_sockets_test_server";
  std::ofstream(program) << "#!/bin/sh\necho $1 >&3\nread line <&3\n";
  chmod(program.c_str(), S_IRWXU);
  {
    PmiSockets sockets(poller_, program);
    sockets.set_handler(*this);
    const ProcKey key{4, 1};
    ASSERT_EQ(sockets.start_pmix(key), "");
    loop_.run();
    EXPECT_EQ(got_, "serve\n");
    ASSERT_EQ(sockets.start_pmix({5, 1}), "") << "in the next round";
  }
  unlink(program.c_str());
}

}  // namespace
}  // namespace dlaunch::agent
