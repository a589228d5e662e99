#include "launcher/commands/top_view.h"

#include <gtest/gtest.h>

#include <sstream>

namespace dlaunch::launcher {
namespace {

// Rank 2 of three is waited for; rank 1 uses the most memory.
TopScreen a_screen() {
  TopJob job;
  job.status.job = "j";
  job.status.program = "./train";
  job.status.state = "running";
  job.status.nnodes = 1;
  job.status.world_size = 3;
  job.status.max_restarts = 3;
  job.status.state_age_s = 12;
  job.node.findings = {"rank 2 never entered all_reduce #4 of group default; the other 2 have waited 12 s"};
  for (int rank = 0; rank < 3; ++rank) {
    agent::RankView view;
    view.rank = rank;
    view.pid = 100 + rank;
    view.state = "running";
    view.samples = rank == 2 ? "scc" : "scw";
    view.operation = "all_reduce #4 of group default";
    view.operation_s = 12;
    view.inside = rank != 2;
    view.last_output = "epoch " + std::to_string(rank);
    job.node.ranks.push_back(view);
    job.uses.push_back({rank * 0.5, static_cast<std::uint64_t>(rank == 1 ? 9 : 5) << 20U});
  }
  return {"14:03:07", {0.5, 1, 1.5}, 2, {job}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string plain_text(const std::string& text) {
  std::string out;
  bool in_sequence = false;
  for (const char c : text) {
    if (c == '\x1b') in_sequence = true;
    if (!in_sequence) out += c;
    if (c == 'm') in_sequence = false;
  }
  return out;
}

TEST(TopView, FitsEightyColumns) {
  EXPECT_EQ(top_text(a_screen(), {}),
            "dlaunch top  14:03:07  1 job  load 0.50 1.00 1.50 on 2 processors\n"
            "\n"
            "job j: running for 12 s, node 0 of 1, 3 ranks, 0 of 3 restarts\n"
            "  ./train\n"
            "  rank 2 never entered all_reduce #4 of group default; the other 2 have waited\n"
            "  12 s\n"
            "RANK  PID  STATE       CPU  MEM  OPS/S  LATE  OPERATION\n"
            "   0  100  waiting      0%   5M    0.0     -  12 s in all_reduce #4\n"
            "   1  101  waiting     50%   9M    0.0     -  12 s in all_reduce #4\n"
            "   2  102  computing  100%   5M    0.0     -  12 s after all_reduce #4\n");
}

TEST(TopView, NoLineIsWiderThanTheScreen) {
  TopScreen screen = a_screen();
  screen.jobs[0].status.program = screen.jobs[0].node.ranks[0].last_output = std::string(500, 'x');
  screen.jobs[0].node.findings[0] = std::string(300, 'y');
  for (const std::size_t width : {80U, 109U, 110U, 159U, 160U, 300U}) {
    for (const bool output : {false, true}) {
      for (const std::string& line : lines_of(top_text(screen, {width, 0, false, output, TopOrder::rank})))
        EXPECT_LE(line.size(), width) << line;
    }
  }
}

TEST(TopView, AWideScreenHasStripsAndTheLastLine) {
  const std::string text = top_text(a_screen(), {160, 0, false, false, TopOrder::rank});
  EXPECT_NE(text.find("LATELY                OPERATION"), std::string::npos) << text;
  EXPECT_NE(text.find("scw                   12 s in all_reduce #4 of group default"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  epoch 2\n"), std::string::npos) << text;
}

TEST(TopView, ColoursChangeNothingElse) {
  const TopStyle without{120, 20, false, false, TopOrder::care};
  TopStyle with = without;
  with.colours = true;
  const std::string coloured = top_text(a_screen(), with);
  EXPECT_NE(coloured.find("\x1b[33mwaiting"), std::string::npos) << coloured;
  EXPECT_EQ(plain_text(coloured), top_text(a_screen(), without));
}

TEST(TopView, SortsByWhatTheKeysSay) {
  const auto first = [](TopStyle style) {
    const std::string text = top_text(a_screen(), style);
    const std::size_t row = text.find('\n', text.find("RANK")) + 1;
    return text.substr(text.find_first_not_of(' ', row), 1);
  };
  TopStyle style;
  EXPECT_EQ(first(style), "0");
  for (const auto& [key, rank] : {std::pair{'s', "2"}, {'m', "1"}, {'c', "2"}, {'l', "0"}, {'r', "0"}}) {
    EXPECT_TRUE(apply_key(key, style));
    EXPECT_EQ(first(style), rank) << key;
  }
  EXPECT_TRUE(apply_key('o', style));
  EXPECT_NE(top_text(a_screen(), style).find("epoch 0"), std::string::npos);
  EXPECT_FALSE(apply_key('x', style));
  EXPECT_EQ(top_order("memory"), TopOrder::memory);
  EXPECT_FALSE(top_order("size"));
}

TEST(TopView, FillsTheScreenAndEndsWithTheKeys) {
  for (std::size_t height = 3; height < 20; ++height) {
    const auto lines = lines_of(top_text(a_screen(), {80, height, false, false, TopOrder::rank}));
    ASSERT_EQ(lines.size(), height);
    EXPECT_TRUE(lines.back().starts_with("q quit")) << height;
  }
  const std::string text = top_text(a_screen(), {80, 10, false, false, TopOrder::rank});
  EXPECT_NE(text.find("... and 2 more; s shows those to look at first\n"), std::string::npos) << text;
}

TEST(TopView, TheKernelsStateIsShownIfNothingIsRecorded) {
  TopScreen screen = a_screen();
  auto& ranks = screen.jobs[0].node.ranks;
  for (agent::RankView& rank : ranks) rank.samples = "?";
  ranks[0].doing = "sleeps in the kernel (pipe_read)";
  ranks[1].doing = "waits in the kernel without interruption (nfs)";
  ranks[2].state = "stopped";
  const std::string text = top_text(screen, {});
  EXPECT_NE(text.find("100  sleeping"), std::string::npos) << text;
  EXPECT_NE(text.find("101  in kernel"), std::string::npos) << text;
  EXPECT_NE(text.find("102  stopped"), std::string::npos) << text;
}

TEST(TopView, TextOfProgramsIsSanitized) {
  TopScreen screen = a_screen();
  screen.jobs[0].status.program = screen.jobs[0].node.findings[0] = "\x1b[2Jx";
  screen.jobs[0].node.ranks[0].last_output = screen.jobs[0].node.ranks[0].operation = "\x1b[2Jx";
  EXPECT_EQ(top_text(screen, {200, 0, false, false, TopOrder::rank}).find('\x1b'), std::string::npos);
  EXPECT_NE(top_text({}, {}).find("no jobs run on this machine\n"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::launcher
