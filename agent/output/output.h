// The workers' output: reads their pipes or terminals, forwards whole lines to the agent's own stdout and
// stderr, writes log files, and keeps the last lines of each stream for the failure report.
//
// Memory is bounded: while the reader of our stdout (stderr) is slow, this does not read from the workers
// that write there, so that they wait like in a shell's pipe. One thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
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
    // False (a single worker, no prefix): bytes are forwarded as they come.
    bool whole_lines = true;
    std::string role = {};
    std::string host = {};
    bool colours = false;  // if the console is a terminal
    bool ptys = false;     // each worker has a terminal of its own
    // A process manager reads our terminal and writes what it reads elsewhere: it counts as a pipe.
    bool terminal_is_read = false;
    // By stream: another process forwards our output to a terminal.
    std::array<bool, 2> onto_terminal = {};
    LogFile::Warn warn = nullptr;                        // for errors of files
    std::function<std::string()> time_of_day = nullptr;  // for ${time} in prefixes; unset: it stays as it is
  };

  // The default prefixes of console lines: torchrun's for streams that --tee names, the rank if several
  // workers write to one terminal, else none.
  static constexpr std::string_view tee_prefix = "[${role_name}${local_rank}]:";
  static constexpr std::string_view terminal_prefix = "[rank ${rank}]: ";

  // Forwards to descriptors 1 and 2.
  Output(UvPoller& poller, Style style);
  ~Output() override;

  // The stream shall be a terminal for the worker, as it would be without dlaunch: if it goes to our terminal
  // unchanged, and to no file. With Style::ptys: unless it goes only to a file.
  [[nodiscard]] bool gives_terminal(ProcKey key, const Command& command, Stream stream);
  // That terminal is also the worker's controlling terminal.
  [[nodiscard]] bool gives_control() const { return style_.ptys; }
  // Our own terminal has changed its size.
  void resize_terminals() const;

  // Takes ownership of the descriptor. REQUIRES: it is non-blocking. `command`: the program that writes to
  // it.
  void add(ProcKey key, const Command& command, Stream stream, int fd);

  // The last lines of a worker's stderr; of its stdout if there are none on stderr.
  struct LastLines {
    std::string text;
    bool are_of_stdout = false;
  };
  // Reads all that the worker has written until now, and returns its last lines. A worker that has ended
  // writes nothing more, but its descendants may.
  LastLines drain(ProcKey key);

  // Called before the workers are signalled: keeps what each has last written to stderr.
  void keep_output_tails();
  // What keep_output_tails() kept of this worker, if anything.
  [[nodiscard]] std::string take_kept_tail(ProcKey key);

  // The file of its stream `first`, or else of its other stream. Empty: neither has one.
  [[nodiscard]] std::string log_file_of(ProcKey key, Stream first) const;

  // The last line that the worker wrote to either stream, cut to `shown_bytes`. Empty: nothing yet.
  static constexpr std::size_t shown_bytes = 200;
  [[nodiscard]] std::string last_line(ProcKey key) const;

  // The last lines that a worker has written to stderr; to stdout if there are none on stderr. Of what has
  // been read until now.
  [[nodiscard]] std::string recent_lines(ProcKey key) const;

  // The bytes that the workers have written to both streams until now.
  [[nodiscard]] std::uint64_t printed() const { return printed_; }

  // No process is left that could write: reads the rest and closes all streams.
  void close_all();

  // These last lines of a worker are among the last lines on a terminal that we write to.
  [[nodiscard]] bool shows(const std::string& lines) const;

  // Writes a line of dlaunch's own to stderr, never inside a worker's line. `line` ends with a newline.
  void write_own(std::string_view line);

  // Both consoles, for the time after the loop: the caller then writes what is queued.
  [[nodiscard]] const Style& style() const { return style_; }
  [[nodiscard]] std::array<Console*, 2> consoles() const { return {consoles_[0].get(), consoles_[1].get()}; }
  // Warns, once, if output was lost although it had a reader, as on a full disk.
  void report_loss();
  // The output lost because log files could not be written, and the number of these files. Counts only
  // streams that have ended.
  [[nodiscard]] const Dropped& lost_in_files() const { return lost_in_files_; }
  [[nodiscard]] int files_with_gaps() const { return files_with_gaps_; }
  [[nodiscard]] int why_lost() const { return why_lost_; }  // the errno of one of them; 0: there are none
  // report_loss() has warned.
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
  // Writes to the console, and remembers what a terminal shows.
  void show(Stream stream, std::string_view beginning, std::string_view rest = {});
  void pause_or_resume();
  Console& console(Stream stream) { return *consoles_[static_cast<std::size_t>(stream)]; }
  [[nodiscard]] std::string prefix_of(ProcKey key, int rank, Stream stream);
  [[nodiscard]] bool is_shown(ProcKey key, int rank, Stream stream) const;
  [[nodiscard]] bool is_terminal(Stream stream) const;
  [[nodiscard]] bool is_kept(ProcKey key, Stream stream) const;
  [[nodiscard]] std::string log_path(ProcKey key, const std::string& name) const;
  [[nodiscard]] std::unique_ptr<LogFile> log_file(const std::string& path) const;

  UvPoller& poller_;
  const Style style_;
  RankLinks rank_links_;
  std::array<std::unique_ptr<Console>, 2> consoles_;  // by Stream
  Tail screen_;                                       // the last output to terminals
  std::uint64_t printed_ = 0;
  bool lost_some_ = false;
  Dropped lost_in_files_;
  int files_with_gaps_ = 0;
  int why_lost_ = 0;
  std::map<int, std::unique_ptr<Source>> sources_;
  std::map<std::pair<ProcKey, Stream>, std::string> ended_tails_;
  std::map<ProcKey, std::string> last_lines_;
  std::map<ProcKey, std::string> kept_tails_;
  std::string prefixed_;  // keeps its memory
};

}  // namespace dlaunch::agent
