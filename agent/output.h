// The workers' output: read from their pipes, forwarded to the agent's own stdout and stderr in whole lines,
// the last lines of each stderr kept for the failure report.
//
// Memory is bounded: when the reader of our output is slow, reading from the workers stops until it has
// caught up, so that they wait as they would in a shell's pipe. With `whole_lines` off (a single worker)
// bytes pass as they come. One thread: the loop's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "agent/lines.h"
#include "agent/spawner.h"
#include "agent/uv_edge.h"

namespace dlaunch::agent {

class Output final : public FdHandler {
 public:
  enum class Stream { out, err };

  // Forwards to descriptors 1 and 2.
  Output(UvEdge& edge, bool whole_lines);
  ~Output() override;

  // Takes the descriptor over. It must be non-blocking.
  void add(ProcKey key, Stream stream, int fd);

  // Takes in all that the worker has written until now, and returns the last lines of its stderr. For a
  // worker that has ended this is all it will ever write; its descendants may still write more.
  std::string drain(ProcKey key);

  // What the worker wrote last, on either stream: a line, cut to `shown_bytes`. Empty: nothing yet.
  static constexpr std::size_t shown_bytes = 200;
  [[nodiscard]] std::string last_line(ProcKey key) const;

  // Nobody is left who could write: takes in the rest, closes all streams.
  void close_all();

  // A line of dlaunch's own on stderr, never inside a worker's line. `line` ends with a newline.
  void write_own(std::string_view line);

  // Blocks until everything taken in has been written, or the reader has gone. For the very end, when the
  // loop no longer runs and signals have their default action again.
  void flush();

  void on_readable(int fd) override;
  void on_writable(int fd) override;

 private:
  struct Source {
    ProcKey key;
    Stream stream{};
    LineSplitter lines;
    Tail tail;
  };
  class Sink;

  // False: the stream has ended.
  bool take_in(int fd, Source& source, bool all);
  void end(int fd);
  void pause_or_resume();
  Sink& sink(Stream stream);

  UvEdge& edge_;
  bool whole_lines_;
  bool paused_ = false;
  std::map<int, Source> sources_;
  std::map<ProcKey, std::string> ended_tails_;
  std::map<ProcKey, std::string> last_lines_;
  std::unique_ptr<Sink> out_;
  std::unique_ptr<Sink> err_;
};

}  // namespace dlaunch::agent
