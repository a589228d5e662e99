// Real PyTorch on the other side of the wire, if the machine has it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "store/client/file_store.h"
#include "store/client/prefix_store.h"
#include "store/server/hosted_store.h"
#include "tests/store/client/reserved_port.h"
#include "tests/store/client/temporary_folder.h"
#include "tests/store/server/server_thread.h"

namespace dlaunch::store {
namespace {

using test::ServerThread;

constexpr int no_torch = 77;

// The distribution's PyTorch, or another one (scripts/test --pytorch).
std::string python() {
  const char* const other = std::getenv("DLAUNCH_TORCH_PYTHON");  // NOLINT(concurrency-mt-unsafe): one thread
  return other != nullptr && *other != '\0' ? other : "/usr/bin/python3";
}

std::string script(const std::string& arguments) {
  return "exec '" + python() + "' " DLAUNCH_SOURCE_DIR "/tests/store/client/torch_client.py " + arguments;
}

// Runs PyTorch. Returns whether it exists.
bool run(const std::string& arguments) {
  const int status = std::system(script(arguments).c_str());  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_torch) return false;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  return true;
}

bool run(const std::string& mode, const ServerThread& server) {
  return run(mode + " 127.0.0.1 " + std::to_string(server.port()));
}
bool there_is_one() {
  static const bool found = run("none");
  return found;
}

TEST(Torch, ItsClientUsesOurServer) {
  ServerThread server;
  if (!run("client", server)) GTEST_SKIP() << python() << " has no torch";
  EXPECT_TRUE(server.reports().empty());
}

TEST(Torch, ItsWorkersMeetAtOurServer) {
  ServerThread server;
  if (!run("workers", server)) GTEST_SKIP() << python() << " has no torch";
  EXPECT_TRUE(server.reports().empty());
  EXPECT_GE(server.stats().connections_total, 2U);
}

TEST(Torch, OurMasterWaitsForItsWorker) {
  if (!there_is_one()) GTEST_SKIP() << python() << " has no torch";
  const test::ReservedPort port;
  std::thread worker([&] { run("joins 127.0.0.1 " + std::to_string(port.address().port)); });
  HostedStoreOptions options;
  options.address = port.address();
  options.listen_host = "127.0.0.1";
  options.is_master = true;
  options.world_size = 2;
  options.timeout = std::chrono::seconds(60);
  HostedStore store(options);
  EXPECT_EQ(store.get("joined"), "v");
  store.set("end", "now");
  worker.join();
}

// Both write into one file at the same time, with either rule of counting its users.
class TorchFile : public testing::TestWithParam<FileStoreUsers> {};

TEST_P(TorchFile, IsSharedByBoth) {
  if (!there_is_one()) GTEST_SKIP() << python() << " has no torch";
  const test::TemporaryFolder folder;
  FileStoreOptions options;
  options.path = folder.path() + "/store";
  options.timeout = std::chrono::seconds(60);
  options.world_size = 2;
  options.users = GetParam();
  std::thread torch([&] { run("file " + options.path + " 2"); });
  {
    FileStore store(options);
    store.multi_set(std::vector<std::string>{"empty", "c", "no more"},
                    std::vector<std::string>{"", "ours", "v"});
    store.set("ours", std::string("\0\xff", 2));
    store.get("ready");
    for (int i = 0; i < 1000; ++i) store.add("n", 1);
    for (int i = 0; i < 10; ++i) {
      store.set("ping" + std::to_string(i), std::to_string(i));
      EXPECT_EQ(store.get("pong" + std::to_string(i)), std::to_string(i));
    }
    EXPECT_EQ(store.add("n", 0), 2000);
    EXPECT_EQ(store.get("its"), "\xc3\xbc");
    EXPECT_EQ(store.get("c"), "torch");
    EXPECT_FALSE(store.check(std::vector<std::string>{"no more"}));
    store.append("c", "-ours");
    store.set("end", "now");
  }
  torch.join();
  // The last store has removed it.
  EXPECT_NE(access(options.path.c_str(), F_OK), 0);
}

INSTANTIATE_TEST_SUITE_P(Torch, TorchFile,
                         testing::Values(FileStoreUsers::counted, FileStoreUsers::not_counted),
                         [](const auto& one) {
                           return one.param == FileStoreUsers::counted ? "counted" : "not_counted";
                         });

// A PyTorch store in a process of its own.
class TorchServer {
 public:
  TorchServer() {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (pipe(in.data()) != 0 || pipe(out.data()) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      execl("/bin/sh", "sh", "-c", script("server").c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    std::FILE* from = fdopen(out[0], "r");
    std::array<char, 256> line{};
    if (std::fgets(line.data(), line.size(), from) != nullptr) {
      std::istringstream words(line.data());
      std::string word;
      if (words >> word && word == "PORT") words >> port_ >> word >> version_;
    }
    std::fclose(from);
  }
  ~TorchServer() {
    close(to_);
    waitpid(pid_, nullptr, 0);
  }
  TorchServer(const TorchServer&) = delete;
  TorchServer& operator=(const TorchServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }  // 0: PyTorch is missing
  [[nodiscard]] const std::string& version() const { return version_; }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  std::uint16_t port_ = 0;
  std::string version_;
};

TEST(Torch, OurClientUsesItsServer) {
  const TorchServer server;
  if (server.port() == 0) GTEST_SKIP() << python() << " has no torch";
  TcpStoreOptions options;
  options.server = {"127.0.0.1", server.port()};
  options.timeout = std::chrono::seconds(60);
  options.dialect = server.version().starts_with("1.") || server.version().starts_with("2.0") ? Dialect::v1_13
                    : server.version().starts_with("2.1.")                                    ? Dialect::v2_1
                                                                                              : Dialect::v2_2;
  TcpStore store(options);
  TcpStore other(options);
  store.set("k", "v");
  EXPECT_EQ(store.get("k"), "v");
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(store.add("n", -7), -2);
  EXPECT_EQ(store.compare_set("c", "", "a"), "a");
  EXPECT_EQ(store.compare_set("c", "wrong", "b"), "a");
  EXPECT_EQ(store.compare_set("c", "a", "b"), "b");
  const std::int64_t keys = store.num_keys();
  EXPECT_FALSE(store.check(std::vector<std::string>{"k", "absent"}));
  EXPECT_TRUE(store.check(std::vector<std::string>{"k", "c"}));
  EXPECT_TRUE(store.delete_key("k"));
  EXPECT_FALSE(store.delete_key("k"));
  EXPECT_EQ(store.num_keys(), keys - 1);

  store.set("bytes", std::string("\0\xff", 2));
  EXPECT_EQ(other.get("bytes"), std::string("\0\xff", 2));
  store.set("bytes", "");
  EXPECT_EQ(store.get("bytes"), "");
  EXPECT_EQ(store.compare_set("absent", "expected", "b"), "expected");
  store.multi_set(std::vector<std::string>{"m1", "m2"}, std::vector<std::string>{"1", "2"});
  EXPECT_EQ(store.multi_get(std::vector<std::string>{"m2", "m1"}), (std::vector<std::string>{"2", "1"}));
  EXPECT_THROW(store.wait(std::vector<std::string>{"absent"}, Duration::zero()), StoreError);
  for (const char* key : {"bytes", "m1", "m2"}) EXPECT_TRUE(store.delete_key(key)) << key;
  if (options.dialect != Dialect::v1_13) {
    store.append("a", "po");
    store.append("a", "tato");
    EXPECT_EQ(store.get("a"), "potato");
    EXPECT_TRUE(store.delete_key("a"));
  } else {
    EXPECT_THROW(store.append("a", "po"), StoreError);
  }
  if (options.dialect != Dialect::v2_2) {  // without a request of its own
    std::thread second([&] { other.barrier("b", 2); });
    store.barrier("b", 2);
    second.join();
    EXPECT_TRUE(store.delete_key("b/num_members"));
    EXPECT_TRUE(store.delete_key("b/last_member"));
  }

  std::thread setter([&] { other.set("late", "now"); });
  EXPECT_EQ(store.get("late"), "now");
  setter.join();

  // 1.13 answers abandoned waits later; the client must not mistake that for another answer.
  EXPECT_THROW(store.wait(std::vector<std::string>{"never"}, std::chrono::milliseconds(100)), StoreError);
  other.set("never", "after all");
  EXPECT_EQ(other.get("never"), "after all");
  EXPECT_EQ(store.num_keys(), keys + 1);
  EXPECT_EQ(store.get("never"), "after all");
}

}  // namespace
}  // namespace dlaunch::store
