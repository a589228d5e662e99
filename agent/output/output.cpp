#include "agent/output/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "agent/model/last_lines.h"
#include "agent/output/line_prefix.h"
#include "agent/output/log_dir.h"
#include "agent/output/pseudo_terminal.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t read_size = 64U * 1024;

// This much of a stream's end is searched for an error (agent/model/root_cause.h).
constexpr int looked_at_lines = 3;
constexpr std::size_t looked_at_bytes = 2000;

// The last line that is not blank.
std::string_view last_line_of(std::string_view text) {
  const std::size_t end = text.find_last_not_of("\r\n \t");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  return text.substr(text.find_last_of("\r\n") + 1);
}

const char* file_name(Output::Stream stream) {
  return stream == Output::Stream::out ? "stdout.log" : "stderr.log";
}

bool names(Streams streams, Output::Stream stream) {
  const auto bit = stream == Output::Stream::out ? Streams::out : Streams::err;
  return (static_cast<unsigned>(streams) & static_cast<unsigned>(bit)) != 0;
}

}  // namespace

// One stream of one worker.
struct Output::Source {
  ProcKey key;
  Stream stream{};
  bool shown = true;      // on the console
  std::string prefix;     // of its console lines
  bool is_timed = false;  // there is a time in it
  LineSplitter lines;     // to the console
  Tail tail;
  std::unique_ptr<LogFile> file;
  std::unique_ptr<LogFile> copies;  // of the lines that contain one of `filters`
  const std::vector<std::string>* filters = nullptr;
  LineSplitter copied_lines;
  bool paused = false;
};

Output::Output(UvPoller& poller, Style style)
    : poller_(poller),
      style_(std::move(style)),
      rank_links_(style_.log_dir, style_.log.dir.empty(), style_.warn),
      consoles_{std::make_unique<Console>(STDOUT_FILENO), std::make_unique<Console>(STDERR_FILENO)} {}

Output::~Output() {
  for (auto& [fd, source] : sources_) {
    poller_.unwatch(fd);
    close(fd);
  }
  for (const auto& console : consoles_) poller_.unwatch(console->fd());
}

void Output::add(ProcKey key, const Command& command, Stream stream, int fd) {
  const int rank = command.rank;
  auto source = std::make_unique<Source>();
  source->key = key;
  source->stream = stream;
  if (key == health_check) {  // shown as a message of dlaunch's own
    source->prefix = "health check: ";
    source->shown = true;
    poller_.watch(fd, true, false, *this);
    sources_[fd] = std::move(source);
    return;
  }
  source->prefix = prefix_of(key, rank, stream);
  source->is_timed = style_.time_of_day && source->prefix.find(time_placeholder) != std::string::npos;
  const LogOptions& log = style_.log;
  source->shown = is_shown(key, rank, stream);
  if (!style_.log_dir.empty()) {
    const std::string path = log_path(key, file_name(stream));
    const auto& filters = stream == Stream::out ? log.duplicate_stdout_filters : log.duplicate_stderr_filters;
    if (is_kept(key, stream)) {
      // Before its target, so that a reader who finds the target can find its rank.
      rank_links_.add(key.round, command.leader, rank, stream == Stream::out ? "out" : "err", path);
      source->file = log_file(path);
    }
    if (!filters.empty()) {
      source->filters = &filters;
      source->copies = log_file(log_path(key, std::string("filtered_") + file_name(stream)));
    }
  }
  poller_.watch(fd, true, false, *this);
  sources_[fd] = std::move(source);
  pause_or_resume();
}

// Shown on the console. --tee adds to --redirects: a stream named by both goes to the file and to the
// console.
bool Output::is_shown(ProcKey key, int rank, Stream stream) const {
  const LogOptions& log = style_.log;
  const int local_rank = static_cast<int>(key.local_rank);
  const auto chosen = [](const std::vector<int>& only, int one) {
    return only.empty() || std::binary_search(only.begin(), only.end(), one);
  };
  const bool to_file_alone =
      names(log.redirects.of(local_rank), stream) && !names(log.tee.of(local_rank), stream);
  return !to_file_alone && chosen(log.local_ranks_filter, local_rank) &&
         chosen(log.global_ranks_filter, rank);
}

// Written to a file.
bool Output::is_kept(ProcKey key, Stream stream) const {
  const int local_rank = static_cast<int>(key.local_rank);
  return names(style_.log.redirects.of(local_rank), stream) || names(style_.log.tee.of(local_rank), stream);
}

bool Output::is_terminal(Stream stream) const {
  return consoles_[static_cast<std::size_t>(stream)]->is_terminal() && !style_.terminal_is_read;
}

bool Output::gives_terminal(ProcKey key, const Command& command, Stream stream) {
  if (key == health_check || !is_shown(key, command.rank, stream)) return false;
  if (style_.ptys) return true;
  const auto& filters =
      stream == Stream::out ? style_.log.duplicate_stdout_filters : style_.log.duplicate_stderr_filters;
  return !style_.whole_lines && is_terminal(stream) && !is_kept(key, stream) && filters.empty() &&
         prefix_of(key, command.rank, stream).empty();
}

void Output::resize_terminals() const {
  const winsize size = own_window_size();
  for (const auto& [fd, source] : sources_) set_window_size(fd, size);
}

std::string Output::prefix_of(ProcKey key, int rank, Stream stream) {
  const bool terminal = is_terminal(stream) || style_.onto_terminal.at(static_cast<std::size_t>(stream));
  std::string_view text;
  if (style_.log.line_prefix) {
    text = *style_.log.line_prefix;
  } else if (names(style_.log.tee.of(static_cast<int>(key.local_rank)), stream)) {
    text = tee_prefix;
  } else if (terminal && style_.whole_lines) {
    text = terminal_prefix;
  }
  if (text.empty()) return "";
  const std::string prefix =
      expand_prefix(text, {style_.role, rank, static_cast<int>(key.local_rank), style_.host});
  return terminal && style_.colours ? coloured(prefix, rank) : prefix;
}

std::string Output::log_path(ProcKey key, const std::string& name) const {
  return worker_log_dir(style_.log_dir, key.round, key.local_rank) + "/" + name;
}

std::unique_ptr<LogFile> Output::log_file(const std::string& path) const {
  std::error_code failed;  // opening the file reports the error
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  return std::make_unique<LogFile>(path, style_.log.max_bytes, style_.log.keep, style_.warn,
                                   style_.log.dir.empty());
}

Output::LastLines Output::drain(ProcKey key) {
  std::vector<int> fds;
  std::array<std::string, 2> tails;  // by Stream
  for (auto& [fd, source] : sources_) {
    if (source->key == key) fds.push_back(fd);
  }
  for (int fd : fds) {
    Source& source = *sources_.at(fd);
    const bool open = take_in(fd, source, true);
    tails.at(static_cast<std::size_t>(source.stream)) = source.tail.text();
    if (!open) end(fd);
  }
  for (const Stream stream : {Stream::out, Stream::err}) {
    auto ended = ended_tails_.extract({key, stream});
    if (ended) tails.at(static_cast<std::size_t>(stream)) = std::move(ended.mapped());
  }
  pause_or_resume();
  auto& [out, err] = tails;
  const bool is_silent = err.find_first_not_of(" \t\r\n") == std::string::npos;
  if (is_silent && !out.empty()) return {std::move(out), true};
  return {std::move(err), false};
}

void Output::keep_output_tails() {
  std::vector<int> fds;
  for (const auto& [fd, source] : sources_) {
    if (source->stream == Stream::err) fds.push_back(fd);
  }
  for (const int fd : fds) {
    Source& source = *sources_.at(fd);
    // One piece is as much as a pipe holds: all that was written before, but not an endless stream.
    const bool open = take_in(fd, source, false);
    kept_tails_[source.key] = source.tail.text(looked_at_lines, looked_at_bytes);
    if (!open) end(fd);
  }
  pause_or_resume();
}

std::string Output::take_kept_tail(ProcKey key) {
  const auto found = kept_tails_.find(key);
  if (found == kept_tails_.end()) return "";
  std::string words = std::move(found->second);
  kept_tails_.erase(found);
  return words;
}

std::string Output::log_file_of(ProcKey key, Stream first) const {
  if (style_.log_dir.empty()) return "";
  for (const Stream stream : {first, first == Stream::err ? Stream::out : Stream::err}) {
    if (is_kept(key, stream)) return log_path(key, file_name(stream));
  }
  return "";
}

std::string Output::last_line(ProcKey key) const {
  const auto found = last_lines_.find(key);
  return found == last_lines_.end() ? "" : found->second;
}

std::string Output::recent_lines(ProcKey key) const {
  std::array<std::string, 2> tails;  // by Stream
  for (const Stream stream : {Stream::out, Stream::err}) {
    const auto ended = ended_tails_.find({key, stream});
    if (ended != ended_tails_.end()) tails.at(static_cast<std::size_t>(stream)) = ended->second;
  }
  for (const auto& [fd, source] : sources_) {
    if (source->key == key) tails.at(static_cast<std::size_t>(source->stream)) = source->tail.text();
  }
  auto& [out, err] = tails;
  const bool is_silent = err.find_first_not_of(" \t\r\n") == std::string::npos;
  return std::move(is_silent ? out : err);
}

void Output::close_all() {
  while (!sources_.empty()) {
    const auto first = sources_.begin();
    take_in(first->first, *first->second, true);
    end(first->first);
  }
  ended_tails_.clear();
  last_lines_.clear();
  kept_tails_.clear();
  pause_or_resume();
}

bool Output::shows(const std::string& lines) const {
  constexpr int most_lines = 30;  // so many lines are still visible on a screen
  return are_shown(lines, screen_.text(most_lines));
}

void Output::show(Stream stream, std::string_view beginning, std::string_view rest) {
  Console& one = console(stream);
  one.write(beginning, rest);
  if (!is_terminal(stream)) return;
  screen_.add(beginning);
  screen_.add(rest);
}

void Output::write_own(std::string_view line) {
  show(Stream::err, line);
  pause_or_resume();
}

void Output::report_loss() {
  for (const auto& console : consoles_) {
    if (lost_some_) return;
    const std::string loss = console->loss();
    if (loss.empty()) continue;
    lost_some_ = true;
    if (style_.warn) style_.warn(loss);
  }
}

void Output::on_readable(int fd) {
  const auto found = sources_.find(fd);
  if (found == sources_.end()) return;
  if (!take_in(fd, *found->second, false)) end(fd);
  pause_or_resume();
}

void Output::on_writable(int fd) {
  for (const auto& console : consoles_) {
    if (console->fd() == fd) console->push();
  }
  pause_or_resume();
}

bool Output::take_in(int fd, Source& source, bool all) {
  static char buffer[read_size];  // used only by the loop's thread
  const auto to_console = [&](std::string_view beginning, std::string_view rest) {
    forward(source, beginning, rest);
  };
  const auto to_copies = [&](std::string_view beginning, std::string_view rest) {
    copy_matching(source, std::string(beginning).append(rest));
  };
  const bool by_lines = style_.whole_lines || !source.prefix.empty();
  bool open = true;
  do {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      open = got < 0 && errno == EAGAIN;
      break;
    }
    const std::string_view piece(buffer, static_cast<std::size_t>(got));
    printed_ += piece.size();
    source.tail.add(piece);
    if (const auto last = last_line_of(piece); !last.empty())
      last_lines_[source.key].assign(last.substr(0, shown_bytes));
    if (source.file) source.file->write(piece);
    if (source.copies) source.copied_lines.cut(piece, to_copies);
    if (source.shown && by_lines) {
      source.lines.cut(piece, to_console);
    } else if (source.shown) {
      show(source.stream, piece);
    }
  } while (all);
  if (!open) {
    source.lines.finish(to_console);
    source.copied_lines.finish(to_copies);
  }
  return open;
}

void Output::forward(Source& source, std::string_view beginning, std::string_view rest) {
  if (source.prefix.empty()) return show(source.stream, beginning, rest);
  prefixed_.clear();
  const std::string timed = source.is_timed ? with_time(source.prefix, style_.time_of_day()) : "";
  const std::string& prefix = source.is_timed ? timed : source.prefix;
  if (beginning.empty()) {
    add_prefixed(rest, prefix, prefixed_);
  } else {
    add_prefixed(std::string(beginning).append(rest), prefix, prefixed_);
  }
  show(source.stream, prefixed_);
}

void Output::copy_matching(Source& source, std::string_view lines) const {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    const std::string_view line = lines.substr(0, end);
    const bool wanted =
        std::any_of(source.filters->begin(), source.filters->end(),
                    [&](const std::string& text) { return line.find(text) != std::string_view::npos; });
    if (wanted) source.copies->write(line);
    lines.remove_prefix(end);
  }
}

void Output::end(int fd) {
  const auto found = sources_.find(fd);
  const Source& source = *found->second;
  for (const LogFile* file : {source.file.get(), source.copies.get()}) {
    if (!file || file->lost().bytes == 0) continue;
    lost_in_files_.add(file->lost());
    ++files_with_gaps_;
    why_lost_ = file->why_lost();
  }
  ended_tails_[{source.key, source.stream}] = source.tail.text();
  poller_.unwatch(fd);
  close(fd);
  sources_.erase(found);
}

void Output::pause_or_resume() {
  std::array<bool, 2> full{};
  for (const Stream stream : {Stream::out, Stream::err}) {
    Console& one = console(stream);
    full.at(static_cast<std::size_t>(stream)) = one.is_full();
    if (one.wants_writing()) {
      poller_.watch(one.fd(), false, true, *this);
    } else {
      poller_.unwatch(one.fd());
    }
  }
  for (auto& [fd, source] : sources_) {
    const bool pause = source->shown && full.at(static_cast<std::size_t>(source->stream));
    if (pause == source->paused) continue;
    source->paused = pause;
    if (pause) {
      poller_.unwatch(fd);
    } else {
      poller_.watch(fd, true, false, *this);
    }
  }
  report_loss();
}

}  // namespace dlaunch::agent
