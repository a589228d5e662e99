// Between the public KeyValueStore and the Store that the library works with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "dlaunch/store.h"
#include "store/base/address.h"
#include "store/client/store.h"

namespace dlaunch {

// The store behind the public one: itself if it is one of ours, else its calls passed on.
std::shared_ptr<Store> inner_store(const std::shared_ptr<KeyValueStore>& store);

// Waits for the server until the deadline. Throws DistStoreError.
std::shared_ptr<Store> connect_store(const Address& server, Deadline deadline);

DistStoreError store_error(const StoreError& error);

}  // namespace dlaunch
