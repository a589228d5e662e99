// Each top-level folder has its namespace. Rooms above the store use the store's vocabulary (Result,
// Duration, log, TcpStore) without a prefix: it is named here once, and nowhere else.
#pragma once

namespace dlaunch::store {}

namespace dlaunch::agent {
using namespace store;
}
namespace dlaunch::launcher {
using namespace store;
}
namespace dlaunch::internal {
using namespace store;
}
