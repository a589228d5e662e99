#include "runtime/backends/gloo/endpoints.h"

#include <mutex>
#include <vector>

namespace dlaunch::internal {

namespace {

struct Entry {
  std::weak_ptr<Endpoint> endpoint;
  bool is_leased;
};

// Never destroyed: groups may be made while the process ends.
struct Endpoints {
  std::mutex mutex;
  std::vector<Entry> all;  // protected by mutex

  static Endpoints& get() {
    static Endpoints& one = *new Endpoints;
    return one;
  }
};

}  // namespace

EndpointLease::EndpointLease(const std::string& address) {
  Endpoints& endpoints = Endpoints::get();
  const std::lock_guard lock(endpoints.mutex);
  std::erase_if(endpoints.all, [](const Entry& entry) { return entry.endpoint.expired(); });
  for (Entry& entry : endpoints.all) {
    if (entry.is_leased) continue;
    std::shared_ptr<Endpoint> endpoint = entry.endpoint.lock();
    if (!endpoint || !endpoint->is_of_this_process() || endpoint->contact().address != address) continue;
    entry.is_leased = true;
    endpoint_ = std::move(endpoint);
    return;
  }
  endpoint_ = std::make_shared<Endpoint>(address);
  endpoints.all.push_back({endpoint_, true});
}

EndpointLease::~EndpointLease() {
  Endpoints& endpoints = Endpoints::get();
  const std::lock_guard lock(endpoints.mutex);
  for (Entry& entry : endpoints.all) {
    if (entry.endpoint.lock() == endpoint_) entry.is_leased = false;
  }
}

}  // namespace dlaunch::internal
