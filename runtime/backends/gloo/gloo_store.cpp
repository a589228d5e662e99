#include "runtime/backends/gloo/gloo_store.h"

namespace dlaunch {

void GlooStore::set(const std::string& key, const std::vector<char>& data) {
  store_.set(key, std::string(data.begin(), data.end()));
}

std::vector<char> GlooStore::get(const std::string& key) {
  const std::string value = store_.get(key, deadline_);
  return {value.begin(), value.end()};
}

void GlooStore::wait(const std::vector<std::string>& keys) { store_.wait(keys, deadline_); }

void GlooStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& /*timeout*/) {
  store_.wait(keys, deadline_);
}

}  // namespace dlaunch
