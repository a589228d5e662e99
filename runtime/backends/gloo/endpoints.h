// The process's endpoints, which its groups share.
#pragma once

#include <memory>
#include <string>

#include "runtime/backends/gloo/endpoint.h"

namespace dlaunch {

// An endpoint for one group that is being made. Two groups that are made at the same time get two: ranks of
// one group that are threads of one process need one each. An endpoint stays for as long as a group uses it.
class EndpointLease {
 public:
  // At the local address (numeric). Throws as Endpoint does.
  explicit EndpointLease(const std::string& address);
  ~EndpointLease();  // the group has been made, or not
  EndpointLease(const EndpointLease&) = delete;
  EndpointLease& operator=(const EndpointLease&) = delete;

  [[nodiscard]] const std::shared_ptr<Endpoint>& endpoint() const { return endpoint_; }

 private:
  std::shared_ptr<Endpoint> endpoint_;
};

}  // namespace dlaunch
