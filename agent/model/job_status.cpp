#include "agent/model/job_status.h"

#include <nlohmann/json.hpp>

namespace dlaunch::agent {

std::string to_json(const JobStatus& status) {
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (const WorkerStatus& worker : status.workers) {
    workers.push_back({{"rank", worker.rank},
                       {"local_rank", worker.local_rank},
                       {"pid", worker.pid},
                       {"state", worker.state},
                       {"last_output", worker.last_output}});
  }
  const nlohmann::ordered_json json = {{"job", status.job},
                                       {"program", status.program},
                                       {"version", status.version},
                                       {"agent", status.agent},
                                       {"host", status.host},
                                       {"node_rank", status.node_rank},
                                       {"nnodes", status.nnodes},
                                       {"state", status.state},
                                       {"waiting_for", status.waiting_for},
                                       {"round", status.round},
                                       {"world_size", status.world_size},
                                       {"restarts_used", status.restarts_used},
                                       {"max_restarts", status.max_restarts},
                                       {"age_s", status.age_s},
                                       {"state_age_s", status.state_age_s},
                                       {"endpoint", status.endpoint},
                                       {"last_failure", status.last_failure},
                                       {"log_dir", status.log_dir},
                                       {"pages_dir", status.pages_dir},
                                       {"workers", workers}};
  // A program's arguments may be any bytes; JSON may not.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<JobStatus> status_from_json(std::string_view text) {
  const auto bad = [](const std::string& why) {
    return Error{ErrorKind::invalid, "not a job's status", "", why, ""};
  };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("no JSON object");
  try {
    JobStatus status;
    const auto take = [&json](const char* name, auto& into) {
      if (const auto found = json.find(name); found != json.end()) found->get_to(into);
    };
    take("job", status.job);
    take("program", status.program);
    take("version", status.version);
    take("agent", status.agent);
    take("host", status.host);
    take("node_rank", status.node_rank);
    take("nnodes", status.nnodes);
    take("state", status.state);
    take("waiting_for", status.waiting_for);
    take("round", status.round);
    take("world_size", status.world_size);
    take("restarts_used", status.restarts_used);
    take("max_restarts", status.max_restarts);
    take("age_s", status.age_s);
    take("state_age_s", status.state_age_s);
    take("endpoint", status.endpoint);
    take("last_failure", status.last_failure);
    take("log_dir", status.log_dir);
    take("pages_dir", status.pages_dir);
    if (const auto workers = json.find("workers"); workers != json.end()) {
      for (const auto& one : *workers) {
        WorkerStatus& worker = status.workers.emplace_back();
        one.at("rank").get_to(worker.rank);
        one.at("local_rank").get_to(worker.local_rank);
        one.at("pid").get_to(worker.pid);
        one.at("state").get_to(worker.state);
        worker.last_output = one.value("last_output", "");
      }
    }
    return status;
  } catch (const nlohmann::json::exception& mistake) {
    return bad(mistake.what());
  }
}

}  // namespace dlaunch::agent
