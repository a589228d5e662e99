// What happens to the job, as a file for programs: --events.
#pragma once

#include <string>

#include "agent/event.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// One JSON object and a line end; the keys are in the manual page. `unix_s`: when, in seconds since 1970.
std::string event_json(const agent::Event& event, const std::string& job, double unix_s);

// Appends whole lines, so that several agents and jobs may share a file. Where that fails it is said once,
// and the job goes on.
class EventLog {
 public:
  static Result<EventLog> open(const std::string& path, std::string job);
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&&) = delete;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  ~EventLog();

  void write(const agent::Event& event);

 private:
  EventLog(int fd, std::string path, std::string job)
      : fd_(fd), path_(std::move(path)), job_(std::move(job)) {}

  int fd_ = -1;
  std::string path_;
  std::string job_;
  bool failed_ = false;
};

}  // namespace dlaunch::launcher
