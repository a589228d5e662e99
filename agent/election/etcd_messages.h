// The election's requests to etcd v3 and etcd's answers: the bodies of its JSON gateway. Pure.
// https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/ describes them: bytes are base64, 64-bit numbers are
// texts.
#pragma once

#include <string>
#include <string_view>

#include "agent/election/election.h"
#include "store/base/result.h"

namespace dlaunch::agent {

struct EtcdRequest {
  std::string path;  // "/v3/lease/grant"
  std::string body;
};

EtcdRequest grant_lease(Duration ttl);
// Also requests what an earlier leader has left, if the key is free.
EtcdRequest campaign(std::string_view key, std::string_view value, LeaseId lease);
// Keeps `text` for as long as `lease` lives, if the key has this value; read_campaign() reads it.
EtcdRequest leave_behind(std::string_view key, std::string_view value, std::string_view text, LeaseId lease);
EtcdRequest renew_lease(LeaseId lease);
EtcdRequest revoke_lease(LeaseId lease);
EtcdRequest watch_key(std::string_view key, std::int64_t since_revision);

Result<LeaseGranted> read_granted(std::string_view body);
Result<CampaignEnded> read_campaign(std::string_view body);
Result<LeaseRenewed> read_renewed(std::string_view body);
// One line of a watch; nothing if it reports no change.
Result<std::optional<KeyChanged>> read_watch_line(std::string_view line);

// What etcd reports as wrong: its own text, if there is one.
std::string read_trouble(int status, std::string_view body);

}  // namespace dlaunch::agent
