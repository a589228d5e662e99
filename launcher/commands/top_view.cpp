#include "launcher/commands/top_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "store/base/sanitize.h"
#include "store/base/text.h"
#include "store/base/time.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t wide = 110;       // from here on there is room for the strips
constexpr std::size_t very_wide = 160;  // ... and for the operation beside the last line of output
constexpr std::size_t operation_width = 50;
constexpr std::size_t strip_length = 20;

constexpr std::string_view plain = "\x1b[0m";
constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view reverse = "\x1b[7m";
constexpr std::string_view alarm = "\x1b[33;1m";

constexpr std::string_view keys = "q quit  sort: r rank  s look first  c CPU  m memory  l late  o output";

std::string words(double seconds) {
  return to_words(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

std::string fixed(double value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

// Letters of samples: those that mean time lost stand out, also without colours.
std::string_view colour_of(char letter) {
  switch (letter) {
    case 's':
      return "\x1b[32m";
    case 'o':
      return "\x1b[36m";
    case 'w':
      return "\x1b[33m";
    case 't':
      return "\x1b[35;1m";
    default:
      return "";
  }
}

// A rank's state, by the kernel and its records: the word and the letter of its colour.
struct State {
  std::string word;
  char letter = ' ';
};
State state_of(const agent::RankView& rank) {
  if (rank.state == "stopped") return {"stopped", 't'};
  if (rank.state != "running")
    return {sanitize_for_terminal(rank.state), rank.state == "starting" ? 's' : ' '};
  switch (rank.samples.empty() ? '?' : rank.samples.back()) {
    case 's':
      return {"starting", 's'};
    case 'c':
      return {"computing", 'c'};
    case 'o':
      return {"in op", 'o'};
    case 'w':
      return {"waiting", 'w'};
    case 't':
      return {"stopped", 't'};
    default:
      break;
  }
  if (rank.doing.starts_with("sleeps")) return {"sleeping", ' '};
  if (rank.doing.starts_with("waits")) return {"in kernel", 't'};
  return {"running", ' '};
}

// Without its group if there is little room.
std::string operation_of(const agent::RankView& rank, bool has_room) {
  if (rank.operation.empty()) return "-";
  std::string name = sanitize_for_terminal(rank.operation);
  if (!has_room) name.resize(std::min(name.size(), name.find(" of group ")));
  return rank.inside ? words(rank.operation_s) + " in " + name : words(rank.operation_s) + " after " + name;
}

// The larger, the more it deserves a look: those that others wait for.
double care_for(const agent::RankView& rank, bool others_wait) {
  double care = rank.late_s > 0 ? 1 - 1 / (1 + rank.late_s) : 0;
  if (rank.state == "stopped") care += 5;
  if (rank.state == "ended") care += 4;
  if (others_wait && !rank.inside) care += 3;
  return care;
}

std::vector<std::size_t> ordered(const TopJob& job, TopOrder order) {
  const auto& ranks = job.node.ranks;
  std::vector<std::size_t> places(ranks.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const bool others_wait =
      std::ranges::any_of(ranks, [](const agent::RankView& rank) { return rank.samples.ends_with('w'); });
  const auto key = [&](std::size_t at) {
    switch (order) {
      case TopOrder::care:
        return care_for(ranks[at], others_wait);
      case TopOrder::cpu:
        return job.uses.at(at).cpu;
      case TopOrder::memory:
        return static_cast<double>(job.uses.at(at).memory);
      case TopOrder::late:
        return ranks[at].late_s;
      case TopOrder::rank:
        break;
    }
    return 0.0;
  };
  std::ranges::stable_sort(places, std::greater<>(), key);
  return places;
}

// The text of the screen, line by line.
class Lines {
 public:
  explicit Lines(const TopStyle& style) : style_(style) {}

  // A line in one colour, cut to the width.
  void add(const std::string& text, std::string_view colour = "") {
    text_ += painted(shortened(text, std::max<std::size_t>(style_.width, 3)), colour) + "\n";
    ++count_;
  }
  // As many lines as the text needs and there is room for, broken between words.
  void add_wrapped(std::string_view text, std::string_view colour) {
    constexpr std::size_t indent = 2;
    const std::size_t width = std::max<std::size_t>(style_.width, 20) - indent;
    while (!text.empty() && room() > 0) {
      std::size_t end = text.size() <= width ? text.size() : text.rfind(' ', width);
      if (end == std::string_view::npos || end == 0) end = std::min(width, text.size());
      add(std::string(indent, ' ').append(text.substr(0, end)), colour);
      text.remove_prefix(std::min(end + (end < text.size() && text[end] == ' ' ? 1 : 0), text.size()));
    }
  }
  // A line in parts, each with its colour. REQUIRES: they fit.
  void add_parts(const std::vector<std::pair<std::string, std::string_view>>& parts) {
    for (const auto& [part, colour] : parts) text_ += painted(part, colour);
    text_ += '\n';
    ++count_;
  }
  [[nodiscard]] std::string painted(const std::string& text, std::string_view colour) const {
    if (!style_.colours || colour.empty()) return text;
    return std::string(colour).append(text).append(plain);
  }
  // How many more fit above the line of keys.
  [[nodiscard]] std::size_t room() const {
    if (style_.height == 0) return static_cast<std::size_t>(-1);
    return style_.height > count_ + 1 ? style_.height - count_ - 1 : 0;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  const TopStyle& style_;
  std::string text_;
  std::size_t count_ = 0;
};

void add_head(const TopScreen& screen, Lines& lines) {
  std::string head = "dlaunch top";
  if (!screen.time.empty()) head += "  " + screen.time;
  head += "  " + pluralize(screen.jobs.size(), "job");
  if (!screen.load.empty()) {
    head += "  load";
    for (const double load : screen.load) head += " " + fixed(load, 2);
    head += " on " + pluralize(screen.processors, "processor");
  }
  lines.add(head);
}

std::string job_line(const TopJob& job) {
  const agent::JobStatus& status = job.status;
  double rate = 0;
  for (const agent::RankView& rank : job.node.ranks) rate = std::max(rate, rank.rate);
  std::string line = "job " + sanitize_for_terminal(status.job) + ": " + sanitize_for_terminal(status.state) +
                     " for " + words(status.state_age_s);
  if (rate > 0) line += ", " + fixed(rate, rate < 100 ? 1 : 0) + " operations/s";
  line += ", node " + (status.node_rank < 0 ? "-" : std::to_string(status.node_rank)) + " of " +
          std::to_string(status.nnodes) + ", " + pluralize(status.world_size, "rank") + ", " +
          std::to_string(status.restarts_used) + " of " + pluralize(status.max_restarts, "restart");
  return line;
}

// Widths of the columns before the last one.
std::vector<std::string> cells_of(const TopJob& job, std::size_t at) {
  const agent::RankView& rank = job.node.ranks[at];
  const TopJob::Use& use = job.uses.at(at);
  return {std::to_string(rank.rank),
          rank.pid > 0 ? std::to_string(rank.pid) : "-",
          state_of(rank).word,
          fixed(use.cpu * 100, 0) + "%",
          std::to_string(use.memory >> 20U) + "M",
          fixed(rank.rate, rank.rate < 100 ? 1 : 0),
          rank.came_last == 0 ? "-" : words(rank.late_s)};
}

constexpr std::size_t state_column = 2;

std::string aligned(const std::string& text, std::size_t width, bool right) {
  const std::string blanks(width > text.size() ? width - text.size() : 0, ' ');
  return right ? blanks + text : text + blanks;
}

void add_ranks(const TopJob& job, const TopStyle& style, Lines& lines) {
  std::vector<std::vector<std::string>> rows = {{"RANK", "PID", "STATE", "CPU", "MEM", "OPS/S", "LATE"}};
  const std::vector<std::size_t> places = ordered(job, style.order);
  for (const std::size_t at : places) rows.push_back(cells_of(job, at));
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const bool has_strips = style.width >= wide;
  std::size_t used = 2 * widths.size() + (has_strips ? strip_length + 2 : 0);
  for (const std::size_t width : widths) used += width;
  const bool has_both = style.width >= very_wide;
  if (has_both) used += operation_width;
  const std::size_t last = std::max<std::size_t>(style.width > used ? style.width - used : 0, 3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (lines.room() == 0) return;
    if (i > 0 && lines.room() == 1 && i + 1 < rows.size())
      return lines.add("... and " + std::to_string(rows.size() - i) +
                       " more; s shows those to look at first");
    const agent::RankView* const rank = i == 0 ? nullptr : &job.node.ranks[places[i - 1]];
    const std::string_view of_head = i == 0 ? bold : "";
    std::vector<std::pair<std::string, std::string_view>> parts;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const bool is_state = c == state_column && rank != nullptr;
      parts.emplace_back(aligned(rows[i][c], widths[c], c != state_column) + "  ",
                         is_state ? colour_of(state_of(*rank).letter) : of_head);
    }
    if (has_strips) {
      const std::string samples = rank == nullptr ? "LATELY" : rank->samples;
      const std::string strip = samples.substr(samples.size() - std::min(samples.size(), strip_length));
      if (rank == nullptr) parts.emplace_back(strip, of_head);
      for (const char letter : rank == nullptr ? "" : strip)
        parts.emplace_back(std::string(1, letter), colour_of(letter));
      parts.emplace_back(std::string(strip_length + 2 - strip.size(), ' '), "");
    }
    const std::string operation = rank == nullptr ? "OPERATION" : operation_of(*rank, has_strips);
    const std::string output = rank == nullptr ? "LAST OUTPUT" : sanitize_for_terminal(rank->last_output);
    if (has_both)
      parts.emplace_back(aligned(shortened(operation, operation_width - 2), operation_width, false), of_head);
    parts.emplace_back(shortened(has_both || style.output ? output : operation, last), of_head);
    lines.add_parts(parts);
  }
}

}  // namespace

std::string top_text(const TopScreen& screen, const TopStyle& style) {
  Lines lines(style);
  add_head(screen, lines);
  if (screen.jobs.empty()) lines.add("no jobs run on this machine");
  for (const TopJob& job : screen.jobs) {
    if (lines.room() < 2) break;
    lines.add("");
    lines.add(job_line(job), bold);
    if (lines.room() > 0) lines.add("  " + sanitize_for_terminal(job.status.program));
    if (!job.status.waiting_for.empty() && lines.room() > 0)
      lines.add_wrapped("has waited for " + sanitize_for_terminal(job.status.waiting_for), alarm);
    if (!job.status.last_failure.empty() && lines.room() > 0)
      lines.add_wrapped("last event: " + sanitize_for_terminal(job.status.last_failure), "");
    for (const std::string& finding : job.node.findings) {
      lines.add_wrapped(sanitize_for_terminal(finding), alarm);
    }
    lines.add_wrapped(sanitize_for_terminal(job.status.straggler), alarm);
    if (!job.node.ranks.empty()) add_ranks(job, style, lines);
  }
  const std::size_t empty = style.height == 0 ? 0 : lines.room();
  for (std::size_t i = 0; i < empty; ++i) lines.add("");
  if (style.height > 0) lines.add(aligned(std::string(keys), style.width, false), reverse);
  return lines.take();
}

std::optional<TopOrder> top_order(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, TopOrder>, 5> orders{{{"rank", TopOrder::rank},
                                                                         {"care", TopOrder::care},
                                                                         {"cpu", TopOrder::cpu},
                                                                         {"memory", TopOrder::memory},
                                                                         {"late", TopOrder::late}}};
  const auto found = std::ranges::find(orders, name, &std::pair<std::string_view, TopOrder>::first);
  return found == orders.end() ? std::nullopt : std::optional(found->second);
}

bool apply_key(char key, TopStyle& style) {
  switch (key) {
    case 'r':
      style.order = TopOrder::rank;
      return true;
    case 's':
      style.order = TopOrder::care;
      return true;
    case 'c':
      style.order = TopOrder::cpu;
      return true;
    case 'm':
      style.order = TopOrder::memory;
      return true;
    case 'l':
      style.order = TopOrder::late;
      return true;
    case 'o':
      style.output = !style.output;
      return true;
    default:
      return false;
  }
}

}  // namespace dlaunch::launcher
