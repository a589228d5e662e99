#include "launcher/commands/worker_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

using std::chrono::milliseconds;

TEST(WorkerSocket, ABodyIsThatOfAWholeGoodAnswer) {
  EXPECT_EQ(body_of("HTTP/1.1 200 OK\r\nContent-Type: x\r\nCONTENT-LENGTH: 3\r\n\r\nabcd"), "abc");
  EXPECT_EQ(body_of("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), "");
  for (const char* other :
       {"", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "SSH-2.0\r\n\r\n", "HTTP/1.1\r\n\r\n"})
    EXPECT_EQ(body_of(other), std::nullopt) << other;
}

class WorkerSocketTest : public ::testing::Test {
 protected:
  WorkerSocketTest() : path_(testing::TempDir() + "worker_socket." + std::to_string(getpid())) {
    std::filesystem::remove(path_);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
  }
  ~WorkerSocketTest() override {
    close(listener_);
    std::filesystem::remove(path_);
  }
  // Accepts one connection and answers that. Returns the request.
  std::string serve(const std::string& answer) const {
    const int connection = accept(listener_, nullptr, nullptr);
    char request[4096];
    const ssize_t got = recv(connection, request, sizeof request, 0);
    send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    close(connection);
    return {request, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  std::string path_;
  int listener_ = -1;
};

TEST_F(WorkerSocketTest, AnAnswerIsItsBody) {
  std::string request;
  std::thread worker([&] { request = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"); });
  const auto answer = ask_worker(path_, "fr_trace_json", steady_now() + std::chrono::seconds(60));
  worker.join();
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(*answer, "{}");
  EXPECT_TRUE(request.starts_with("POST /handler/fr_trace_json HTTP/1.1\r\n")) << request;
}

TEST_F(WorkerSocketTest, AWorkerThatDoesNotKnowTheRequestIsAnError) {
  std::thread worker([&] { serve("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); });
  const auto answer = ask_worker(path_, "other", steady_now() + std::chrono::seconds(60));
  worker.join();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().message(), "cannot ask the worker at " + path_ + ": it does not know the request");
}

TEST_F(WorkerSocketTest, AWorkerThatDoesNotAnswerIsNotWaitedForLonger) {
  const auto answer = ask_worker(path_, "fr_trace_json", steady_now() + milliseconds(20));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().why, "it has not answered in time");
}

TEST(WorkerSocket, NobodyListens) {
  EXPECT_FALSE(ask_worker("/no/such/socket", "x", steady_now() + std::chrono::seconds(60)).ok());
  EXPECT_FALSE(ask_worker("", "x", steady_now() + std::chrono::seconds(60)).ok());
  EXPECT_FALSE(ask_worker(std::string(200, 'x'), "x", steady_now() + std::chrono::seconds(60)).ok());
}

}  // namespace
}  // namespace dlaunch::launcher
