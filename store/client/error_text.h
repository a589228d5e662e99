// Keys and waits in error messages, the same for all stores.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store/base/result.h"
#include "store/base/text.h"
#include "store/base/time.h"

namespace dlaunch::store {

// "key 'a'", "keys 'a', 'b', 'c' and 97 more".
std::string describe_keys(std::span<const std::string> keys);

// "store 10.0.0.1:29500: waited 5 s for key 'x'".
Error timeout_error(std::string store, Duration timeout, std::string_view for_what);

}  // namespace dlaunch::store
