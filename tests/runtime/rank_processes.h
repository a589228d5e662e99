// Ranks as processes of their own, with a real store server, as dlaunch would start them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/api/variable.h"
#include "tests/store/server/server_thread.h"

namespace dlaunch::test {

struct RankResult {
  int status = 0;    // of waitpid
  std::string said;  // what the body returned, or "threw: ..."
};

namespace rank_processes {

// A rank that is still running after this has hung, and is killed.
constexpr auto limit = std::chrono::seconds(60);

inline void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

[[noreturn]] inline void run_as_rank(int rank, int size, int port_fd, int result_fd,
                                     const std::function<std::string(int)>& body) {
  char port[8] = {};
  if (read(port_fd, port, sizeof port - 1) <= 0) _exit(3);
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port, 1);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  std::string said;
  try {
    said = body(rank);
  } catch (const std::exception& e) {
    said = std::string("threw: ") + e.what();
  }
  write_all(result_fd, said);
  _exit(0);
}

struct Child {
  pid_t pid = -1;
  int to = -1;    // the port goes here
  int from = -1;  // the result comes from here
};

// Must be called while the process has one thread.
inline Child start(int rank, int size, const std::function<std::string(int)>& body) {
  int down[2];
  int up[2];
  if (pipe(down) != 0 || pipe(up) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid == 0) {
    close(down[1]);
    close(up[0]);
    run_as_rank(rank, size, down[0], up[1], body);
  }
  close(down[0]);
  close(up[1]);
  return {pid, down[1], up[0]};
}

// Reads until the end of the pipe, that is, of the process. False if it is not there in time.
inline bool read_all(int fd, std::chrono::steady_clock::time_point deadline, std::string& text) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) == 0) return false;
    char buffer[4096];
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return true;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace rank_processes

// Runs `body(rank)` in `size` processes with the environment of workers,
// and returns what became of them. The last `absent` ranks never come.
inline std::vector<RankResult> run_processes(int size, const std::function<std::string(int)>& body,
                                             int absent = 0) {
  namespace rp = rank_processes;
  std::vector<rp::Child> children;
  children.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size - absent; ++rank) children.push_back(rp::start(rank, size, body));
  std::vector<RankResult> results(children.size());
  {
    const ServerThread server;
    for (const rp::Child& child : children) {
      rp::write_all(child.to, std::to_string(server.port()));
      close(child.to);
    }
    const auto deadline = std::chrono::steady_clock::now() + rp::limit;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (!rp::read_all(children[i].from, deadline, results[i].said)) {
        kill(children[i].pid, SIGKILL);
        results[i].said += " [hung]";
      }
      close(children[i].from);
      waitpid(children[i].pid, &results[i].status, 0);
    }
  }
  return results;
}

// And that every rank has returned so.
inline void expect_all_say(const std::vector<RankResult>& results, const std::string& text) {
  for (const RankResult& result : results) {
    EXPECT_EQ(result.said, text);
    EXPECT_EQ(result.status, 0);
  }
}

}  // namespace dlaunch::test
