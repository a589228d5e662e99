#include "runtime/rendezvous/job_store.h"

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/rendezvous/key_value_store.h"
#include "runtime/rendezvous/served_store.h"
#include "store/client/file_store.h"

namespace dlaunch::internal {

namespace {

std::shared_ptr<Store> connect(const Identity& self, Deadline deadline) {
  try {
    return connect_store(self.master, deadline);
  } catch (const DistStoreError& e) {
    if (self.rank == 0 || self.store_is_served) throw;
    throw DistStoreError("rank 0, which serves the store, has not joined: " + e.reason());
  }
}

}  // namespace

std::shared_ptr<Store> open_job_store(const InitMethod& method, const Identity& self, Deadline deadline) {
  if (method.kind == InitMethod::Kind::file) {
    FileStoreOptions file;
    file.path = method.path;
    file.world_size = self.world_size;
    file.timeout = time_left(deadline);
    return std::make_shared<FileStore>(file);
  }
  if (self.rank == 0 && !self.store_is_served) serve_store_of_rank_zero(self.master);
  return connect(self, deadline);
}

}  // namespace dlaunch::internal
