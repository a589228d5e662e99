// Groups whose ranks are threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/collective_backend.h"
#include "runtime/group/group_impl.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::test {

using namespace internal;

inline std::shared_ptr<GroupImpl> make_impl(int rank, int size, std::shared_ptr<Backend> backend) {
  return std::make_shared<GroupImpl>(
      GroupDescription{"test", rank, size, std::chrono::seconds(60), "threads"},
      std::vector<GroupImpl::DeviceBackend>{{Device::Kind::cpu, std::move(backend)}});
}

// `body` gets its rank's side of a group of `size`.
inline std::vector<std::exception_ptr> in_groups(int size,
                                                 const std::function<void(const ProcessGroup&)>& body) {
  return on_ranks(size, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    const auto group = make_impl(rank, size, std::make_shared<CollectiveBackend>(std::move(transport)));
    body(GroupImpl::handle(group));
    // Dropping a group without destroy() makes the operations of other ranks in it fail.
    group->destroy();
  });
}

}  // namespace dlaunch::test
