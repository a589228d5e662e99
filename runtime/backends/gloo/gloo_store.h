// Our store in the shape in which Gloo's rendezvous wants it.
#pragma once

#include <gloo/rendezvous/store.h>

#include <chrono>
#include <string>
#include <vector>

#include "dlaunch/backend.h"

namespace dlaunch {

// Each wait ends at the deadline, whatever Gloo asks for: its own limit begins anew with every peer.
class GlooStore final : public ::gloo::rendezvous::Store {
 public:
  // REQUIRES: `store` outlives this object.
  GlooStore(BackendStore& store, Deadline deadline) : store_(store), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  BackendStore& store_;
  const Deadline deadline_;
};

}  // namespace dlaunch
