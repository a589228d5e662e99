#include "store/server/store_access.h"

#include "store/base/address.h"

namespace dlaunch::store {

bool StoreAccess::is_own(const std::string& host) const {
  return is_loopback(host) || (key_.is_own && key_.is_own(host));
}

bool StoreAccess::admits(const std::string& host) const {
  return !has_key() || (!key_.needs_tls && trusted_.contains(host)) || is_own(host);
}

}  // namespace dlaunch::store
