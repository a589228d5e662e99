// The workers' output: read from their pipes or terminals, forwarded to the agent's own stdout and stderr in
// whole lines and to log files as they come, the last lines of each stream kept for the failure report.
//
// Memory is bounded: when the reader of our stdout (stderr) is slow, reading from the workers that write
// there stops until it has caught up, so that they wait as they would in a shell's pipe. One thread: the
// loop's.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "agent/model/log_options.h"
#include "agent/model/spawner.h"
#include "agent/output/console.h"
#include "agent/output/log_file.h"
#include "agent/output/rank_links.h"
#include "store/base/lines.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {

class Output final : public FdHandler {
 public:
  enum class Stream { out, err };

  struct Style {
    LogOptions log = {};
    std::string log_dir = {};  // this job's; empty: no files
    // Off (a single worker, no prefix): bytes pass as they come.
    bool whole_lines = true;
    std::string role = {};
    std::string host = {};
    bool colours = false;  // where the console is a terminal
    bool ptys = false;     // each worker has a terminal of its own
    // By stream: what we write is passed on to a terminal by somebody else.
    std::array<bool, 2> onto_terminal = {};
    LogFile::Warn warn = nullptr;                        // what goes wrong with files
    std::function<std::string()> time_of_day = nullptr;  // for ${time} in prefixes; unset: it stays as it is
  };

  // What the prefix of a console line is where none was asked for: torchrun's for streams that --tee names,
  // the rank where several workers write to one terminal, else none.
  static constexpr std::string_view tee_prefix = "[${role_name}${local_rank}]:";
  static constexpr std::string_view terminal_prefix = "[rank ${rank}]: ";

  // Forwards to descriptors 1 and 2.
  Output(UvPoller& poller, Style style);
  ~Output() override;

  // Whether the stream is to be a terminal for the worker, as it would be without dlaunch: where it goes to
  // our terminal as it is, and to no file. With Style::ptys: where it does not go to a file alone.
  [[nodiscard]] bool gives_terminal(ProcKey key, const Command& command, Stream stream);
  // Whether that terminal is the worker's controlling terminal, too.
  [[nodiscard]] bool gives_control() const { return style_.ptys; }
  // Our own terminal has another size now.
  void resize_terminals() const;

  // Takes the descriptor over. It must be non-blocking. `command`: what will write there.
  void add(ProcKey key, const Command& command, Stream stream, int fd);

  // The last lines of a worker's stderr; of its stdout if there are none on stderr.
  struct LastLines {
    std::string text;
    bool are_of_stdout = false;
  };
  // Takes in all that the worker has written until now, and returns its last lines. For a worker that has
  // ended this is all it will ever write; its descendants may still write more.
  LastLines drain(ProcKey key);

  // The workers are about to be signalled: keeps what each has written last to stderr until now.
  void keep_output_tails();
  // These, if any: of a worker that has ended or runs on.
  [[nodiscard]] std::string take_kept_tail(ProcKey key);

  // The file that its stderr, else its stdout, goes to; the other way round for `first` = out. Empty: none.
  [[nodiscard]] std::string log_file_of(ProcKey key, Stream first) const;

  // What the worker wrote last, on either stream: a line, cut to `shown_bytes`. Empty: nothing yet.
  static constexpr std::size_t shown_bytes = 200;
  [[nodiscard]] std::string last_line(ProcKey key) const;

  // Nobody is left who could write: takes in the rest, closes all streams.
  void close_all();

  // Whether these last lines of a worker are among the last on a terminal that we write to.
  [[nodiscard]] bool shows(const std::string& lines) const;

  // A line of dlaunch's own on stderr, never inside a worker's line. `line` ends with a newline.
  void write_own(std::string_view line);

  // Both, for the end, when the loop no longer runs: what is queued then is the caller's to write.
  [[nodiscard]] std::array<Console*, 2> consoles() const { return {consoles_[0].get(), consoles_[1].get()}; }
  // Says it if some could not be written although it had a reader, as on a full disk; once.
  void report_loss();
  // What was to go to log files that could not be written, and how many these were. Of streams that have
  // ended.
  [[nodiscard]] const Dropped& lost_in_files() const { return lost_in_files_; }
  [[nodiscard]] int files_with_gaps() const { return files_with_gaps_; }
  // Whether it was said.
  [[nodiscard]] bool lost_some() const { return lost_some_; }

  void on_readable(int fd) override;
  void on_writable(int fd) override;

 private:
  struct Source;

  // False: the stream has ended.
  bool take_in(int fd, Source& source, bool all);
  void forward(Source& source, std::string_view beginning, std::string_view rest);
  void copy_matching(Source& source, std::string_view lines) const;
  void end(int fd);
  // Writes to the console, and keeps what a terminal shows.
  void show(Stream stream, std::string_view beginning, std::string_view rest = {});
  void pause_or_resume();
  Console& console(Stream stream) { return *consoles_[static_cast<std::size_t>(stream)]; }
  [[nodiscard]] std::string prefix_of(ProcKey key, int rank, Stream stream);
  [[nodiscard]] bool is_shown(ProcKey key, int rank, Stream stream) const;
  [[nodiscard]] bool is_kept(ProcKey key, Stream stream) const;
  [[nodiscard]] std::string log_path(ProcKey key, const std::string& name) const;
  [[nodiscard]] std::unique_ptr<LogFile> log_file(const std::string& path) const;

  UvPoller& poller_;
  const Style style_;
  RankLinks rank_links_;
  std::array<std::unique_ptr<Console>, 2> consoles_;  // by Stream
  Tail screen_;                                       // what was written last to terminals
  bool lost_some_ = false;
  Dropped lost_in_files_;
  int files_with_gaps_ = 0;
  std::map<int, std::unique_ptr<Source>> sources_;
  std::map<std::pair<ProcKey, Stream>, std::string> ended_tails_;
  std::map<ProcKey, std::string> last_lines_;
  std::map<ProcKey, std::string> kept_tails_;
  std::string prefixed_;  // keeps its memory
};

}  // namespace dlaunch::agent
