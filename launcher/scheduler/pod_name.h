// The names of a Kubernetes pod, as its /etc/hosts has them. Pure.
#pragma once

#include <string>

namespace dlaunch::launcher {

// "10.1.2.3  train-1.workers.default.svc.cluster.local  train-1" -> the first name, for "train-1". `host`
// itself, if the file does not have it.
std::string full_name(const std::string& hosts_file, const std::string& host);

// Whether `name` is the full name, or its beginning as pods of the same namespace write it:
// "train-1.workers", "train-1.workers.default". Letters in either case.
bool names_pod(const std::string& name, const std::string& full_name);

}  // namespace dlaunch::launcher
