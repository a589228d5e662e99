// The events of the job, for programs: --events, --event-log-handler=console.
#pragma once

#include <string>
#include <string_view>

#include "agent/model/event.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// One JSON object and a line end; the manual page lists the keys. `unix_s`: its time, in seconds since 1970.
std::string event_json(const agent::Event& event, const std::string& job, double unix_s);
// The same for an event that happens now.
std::string event_line(const agent::Event& event, const std::string& job);

// Appends whole lines, so that several agents and jobs may share a file. The first failed write is logged,
// and the job continues.
class EventLog {
 public:
  static Result<EventLog> open(const std::string& path);
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&&) = delete;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  ~EventLog();

  void write(std::string_view line);

 private:
  EventLog(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
  bool failed_ = false;
};

}  // namespace dlaunch::launcher
