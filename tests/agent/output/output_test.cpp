// The workers' output on its way to descriptors 1 and 2, which are files of a process of its own.

#include "agent/output/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "agent/output/log_dir.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

using Stream = Output::Stream;

// Two or more workers, each with a pipe for each of its streams.
class Workers {
 public:
  explicit Workers(Output& output) : output_(output) {}
  // Writes as this worker, and lets the agent read it.
  void write(std::uint32_t local_rank, Stream stream, const std::string& text) {
    const auto [found, is_new] = pipes_.try_emplace({local_rank, stream});
    auto& [to_read, to_write] = found->second;
    if (is_new) {
      if (pipe2(found->second.data(), O_CLOEXEC | O_NONBLOCK) != 0) _exit(3);
      Command command;
      command.argv = {"./train"};
      command.rank = 10 + static_cast<int>(local_rank);
      output_.add({0, local_rank}, command, stream, to_read);
    }
    if (::write(to_write, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(3);
    output_.on_readable(to_read);
  }
  void end() {
    for (const auto& [worker, ends] : pipes_) close(ends[1]);
  }

 private:
  Output& output_;
  std::map<std::pair<std::uint32_t, Stream>, std::array<int, 2>> pipes_;  // to read, to write
};

class OutputTest : public testing::Test {
 protected:
  // What `part` lets appear on stdout and stderr, as one text: both are the same file. `part` returns whether
  // what it saw itself was right.
  std::string console_of(const Output::Style& style,
                         const std::function<bool(Output& output, Workers& workers)>& part) {
    const std::string place = folder_.path() + "/console";
    const pid_t child = fork();
    if (child == 0) {
      const int file = open(place.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
      for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) dup2(file, fd);
      bool well = false;
      {
        UvLoop loop;
        UvPoller poller(loop);
        Output output(poller, style);
        Workers workers(output);
        well = part(output, workers);
        workers.end();
        output.close_all();
      }
      _exit(well ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "what it saw itself was wrong";
    return content_of(place);
  }
  static std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] Output::Style with_logs() const {
    Output::Style style;
    style.log_dir = folder_.path() + "/logs";
    style.log.dir = style.log_dir;
    return style;
  }
  [[nodiscard]] std::string log(std::uint32_t local_rank, const char* name) const {
    return content_of(worker_log_dir(folder_.path() + "/logs", 0, local_rank) + "/" + name);
  }

  test::TemporaryFolder folder_;
};

TEST_F(OutputTest, LinesOfDifferentRanksNeverMix) {
  EXPECT_EQ(console_of({},
                       [](Output&, Workers& workers) {
                         workers.write(0, Stream::out, "one half ");
                         workers.write(1, Stream::out, "a line\nand a");
                         workers.write(0, Stream::out, "and the other\n");
                         workers.write(1, Stream::err, "an error\n");
                         return true;
                       }),
            "a line\none half and the other\nan error\nand a\n")
      << "the last line has got an end";
}

TEST_F(OutputTest, OfASingleWorkerBytesAreForwardedAsTheyCome) {
  Output::Style style;
  style.whole_lines = false;
  EXPECT_EQ(console_of(style,
                       [](Output&, Workers& workers) {
                         workers.write(0, Stream::out, "50 %\r");
                         workers.write(0, Stream::err, "!");
                         workers.write(0, Stream::out, "100 %\r");
                         return true;
                       }),
            "50 %\r!100 %\r");
}

TEST_F(OutputTest, RedirectedStreamsGoToFilesAndTeedOnesToBoth) {
  Output::Style style = with_logs();
  style.log.redirects.all = Streams::out;
  style.log.tee.all = Streams::err;
  style.role = "trainer";
  EXPECT_EQ(console_of(style,
                       [](Output& output, Workers& workers) {
                         workers.write(1, Stream::out, "to the file\n");
                         workers.write(1, Stream::err, "to both\n");
                         return output.log_file_of({0, 1}, Stream::err).ends_with("/stderr.log");
                       }),
            "[trainer1]:to both\n");
  EXPECT_EQ(log(1, "stdout.log"), "to the file\n");
  EXPECT_EQ(log(1, "stderr.log"), "to both\n") << "without a prefix";
}

TEST_F(OutputTest, OnlyTheRequestedRanksAndLinesAppear) {
  Output::Style style = with_logs();
  style.log.global_ranks_filter = {11};
  style.log.duplicate_stdout_filters = {"loss"};
  style.log.line_prefix = "${rank}: ";
  EXPECT_EQ(console_of(style,
                       [](Output&, Workers& workers) {
                         workers.write(0, Stream::out, "step 1\nloss 2\n");
                         workers.write(1, Stream::out, "loss 3\n");
                         return true;
                       }),
            "11: loss 3\n");
  EXPECT_EQ(log(0, "filtered_stdout.log"), "loss 2\n");
}

TEST_F(OutputTest, TheLastLinesAreThoseOfStderrOrElseOfStdout) {
  console_of({}, [](Output& output, Workers& workers) {
    workers.write(0, Stream::out, "epoch 1\n");
    workers.write(0, Stream::err, "IndexError: 7\n");
    workers.write(1, Stream::out, "epoch 1\nepoch 2\n");
    workers.write(1, Stream::err, " \n");
    if (output.last_line({0, 0}) != "IndexError: 7" || output.last_line({0, 1}) != "epoch 2") return false;
    if (output.recent_lines({0, 0}) != "IndexError: 7" || output.recent_lines({0, 1}) != "epoch 1\nepoch 2")
      return false;
    const auto first = output.drain({0, 0});
    const auto second = output.drain({0, 1});
    return output.recent_lines({0, 2}).empty() && first.text == "IndexError: 7" && !first.are_of_stdout &&
           second.text == "epoch 1\nepoch 2" && second.are_of_stdout && output.drain({0, 2}).text.empty();
  });
}

TEST_F(OutputTest, WhatWasWrittenBeforeTheSignalIsKept) {
  console_of({}, [](Output& output, Workers& workers) {
    workers.write(0, Stream::err, "ValueError: before\n");
    output.keep_output_tails();
    workers.write(0, Stream::err, "Terminated\n");
    return output.take_kept_tail({0, 0}) == "ValueError: before" && output.take_kept_tail({0, 0}).empty();
  });
}

TEST_F(OutputTest, AnOwnLineIsNeverInsideAWorkersLine) {
  EXPECT_EQ(console_of({},
                       [](Output& output, Workers& workers) {
                         workers.write(0, Stream::out, "half ");
                         output.write_own("dlaunch: restarting\n");
                         workers.write(0, Stream::out, "a line\n");
                         return true;
                       }),
            "dlaunch: restarting\nhalf a line\n");
}

}  // namespace
}  // namespace dlaunch::agent
