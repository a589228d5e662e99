#include "store/store_access.h"

namespace dlaunch {

bool StoreAccess::admits(const std::string& host) const {
  if (!has_key() || trusted_.contains(host)) return true;
  if (host.starts_with("127.") || host == "::1") return true;
  return key_.is_own && key_.is_own(host);
}

}  // namespace dlaunch
