// The process's endpoints, which its groups share.
#pragma once

#include <memory>
#include <string>

#include "runtime/backends/gloo/endpoint.h"

namespace dlaunch::internal {

// The endpoint of one group that is being made. Two groups that are made at the same time get two endpoints:
// if the ranks of one group are threads of one process, each needs its own. An endpoint lives as long as a
// group uses it.
class EndpointLease {
 public:
  // Listens at the local address (numeric). Throws as Endpoint does.
  explicit EndpointLease(const std::string& address);
  ~EndpointLease();  // the group is made, or has failed
  EndpointLease(const EndpointLease&) = delete;
  EndpointLease& operator=(const EndpointLease&) = delete;

  [[nodiscard]] const std::shared_ptr<Endpoint>& endpoint() const { return endpoint_; }

 private:
  std::shared_ptr<Endpoint> endpoint_;
};

}  // namespace dlaunch::internal
