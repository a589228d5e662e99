#include "launcher/report/event_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "store/base/log.h"

namespace dlaunch::launcher {
namespace {

using agent::Event;
using agent::EventKind;

const char* name_of(EventKind kind) {
  switch (kind) {
    case EventKind::joined:
      return "joined";
    case EventKind::left:
      return "left";
    case EventKind::lost:
      return "lost";
    case EventKind::world:
      return "world";
    case EventKind::restarted:
      return "restarted";
    case EventKind::stalled:
      return "stalled";
    case EventKind::hung:
      return "hung";
    case EventKind::ended:
      return "ended";
    case EventKind::started:
      return "started";
    case EventKind::failed:
      return "failed";
  }
  return "";
}

}  // namespace

std::string event_json(const Event& event, const std::string& job, double unix_s) {
  nlohmann::ordered_json json{
      {"time", unix_s}, {"event", name_of(event.kind)}, {"job", job}, {"round", event.round}};
  const auto where = [&](bool known, const char* key, const auto& value) {
    if (known) json[key] = value;
  };
  where(event.node_rank >= 0, "node_rank", event.node_rank);
  where(!event.host.empty(), "host", event.host);
  where(event.rank >= 0, "rank", event.rank);
  where(event.pid > 0, "pid", event.pid);
  where(event.kind == EventKind::world, "nodes", event.nodes);
  where(event.kind == EventKind::world, "world_size", event.world_size);
  where(event.kind == EventKind::restarted, "number", event.number);
  where(!event.text.empty(), "text", event.text);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string event_line(const Event& event, const std::string& job) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return event_json(event, job, static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9);
}

Result<EventLog> EventLog::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    return Error{ErrorKind::io, "cannot write events to", path, std::strerror(errno),
                 "choose another file with --events"};
  }
  return EventLog(fd, path);
}

EventLog::EventLog(EventLog&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

EventLog::~EventLog() {
  if (fd_ >= 0) close(fd_);
}

void EventLog::write(std::string_view line) {
  const ssize_t written = ::write(fd_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size()) || std::exchange(failed_, true)) return;
  log::warning("events are missing in " + path_ + ": " +
               (written < 0 ? std::strerror(errno) : "the disk is full"));
}

}  // namespace dlaunch::launcher
