// --rdzv-conf: torchrun's settings of the rendezvous, read from KEY=VALUE,... Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/flags/settings.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// A key that was not given leaves its member empty.
struct RdzvConf {
  std::optional<Duration> join_timeout;
  std::optional<Duration> last_call;
  std::optional<Duration> node_timeout;
  std::optional<bool> hosts_endpoint;
  std::string etcd_prefix;
  std::vector<std::string> warnings;  // keys that have no effect, one sentence each
};

// The first key or value that cannot be used is an error; a key that torchrun does not know is a warning.
Result<RdzvConf> parse_rdzv_conf(const Setting& setting);

}  // namespace dlaunch::launcher
