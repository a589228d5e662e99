#include "agent/model/job_status.h"

#include "agent/model/json_fields.h"

namespace dlaunch::agent {

void fields(auto& io, Of<WorkerStatus> auto& worker) {
  io.required("rank", worker.rank);
  io.required("local_rank", worker.local_rank);
  io.required("pid", worker.pid);
  io.required("state", worker.state);
  io("last_output", worker.last_output);
  io("came_last", worker.came_last);
  io("late_s", worker.late_s);
}

void fields(auto& io, Of<SharedClock> auto& clock) {
  io("id", clock.id);
  io("unix_minus_steady_ns", clock.unix_minus_steady_ns);
  io("error_ns", clock.error_ns);
}

void fields(auto& io, Of<JobStatus> auto& status) {
  io("job", status.job);
  io("program", status.program);
  io("version", status.version);
  io("agent", status.agent);
  io("host", status.host);
  io("node_rank", status.node_rank);
  io("nnodes", status.nnodes);
  io("state", status.state);
  io("waiting_for", status.waiting_for);
  io("round", status.round);
  io("world_size", status.world_size);
  io("restarts_used", status.restarts_used);
  io("max_restarts", status.max_restarts);
  io("age_s", status.age_s);
  io("state_age_s", status.state_age_s);
  io("endpoint", status.endpoint);
  io("last_failure", status.last_failure);
  io("unnoticed_s", status.unnoticed_s);
  io("straggler", status.straggler);
  io("log_dir", status.log_dir);
  io("pages_dir", status.pages_dir);
  io("steady_ns", status.steady_ns);
  io("clock", status.clock);
  io("workers", status.workers);
}

std::string to_json(const JobStatus& status) { return to_text(JsonWriter::json_of(status)); }

Result<JobStatus> status_from_json(std::string_view text) {
  const auto bad = [](const char* why) {
    return Error{ErrorKind::invalid, "not a job's status", "", why, ""};
  };
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("no JSON object");
  JobStatus status;
  if (!JsonReader::read(json, status)) return bad("a field is missing or has another type");
  return status;
}

}  // namespace dlaunch::agent
