#include "store/base/time.h"

#include <cstdio>

namespace dlaunch::store {

std::string to_words(Duration d) {
  const std::int64_t ms = to_millis(d);
  char text[64];
  if (ms < 1000) {
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(ms));
  } else if (ms < 60'000) {
    if (ms % 1000 < 50) {
      std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(ms / 1000));
    } else {
      std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000.0);
    }
  } else {
    std::snprintf(text, sizeof text, "%lld min %lld s", static_cast<long long>(ms / 60'000),
                  static_cast<long long>(ms % 60'000 / 1000));
  }
  return text;
}

}  // namespace dlaunch::store
