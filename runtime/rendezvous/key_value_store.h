// Converts between the public KeyValueStore and the library's Store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dlaunch/backend.h"
#include "dlaunch/store.h"
#include "store/base/address.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// The store behind the public one: the library's own, or an adapter that forwards the calls.
std::shared_ptr<Store> inner_store(const std::shared_ptr<KeyValueStore>& store);

// Waits for the server until the deadline. Throws DistStoreError.
std::shared_ptr<Store> connect_store(const Address& server, Deadline deadline);

DistStoreError store_error(const StoreError& error);

// The call's result. A StoreError that it throws becomes a DistStoreError.
template <class Call>
auto with_store_errors(const Call& call) {
  try {
    return call();
  } catch (const StoreError& e) {
    throw store_error(e);
  }
}

}  // namespace dlaunch::internal
