#include "dlaunch/stream.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"

namespace dlaunch {
inline namespace v1 {

namespace {

constexpr int most_devices = 1024;
thread_local std::vector<Stream> current;  // by device; shorter: the default stream

void require_device(int device) {
  if (device >= 0 && device < most_devices) return;
  throw DistError("there is no CUDA device " + std::to_string(device));
}

}  // namespace

Stream current_stream(int device) {
  require_device(device);
  const auto at = static_cast<std::size_t>(device);
  return at < current.size() ? current[at] : Stream();
}

Stream set_current_stream(Stream stream, int device) {
  require_device(device);
  const auto at = static_cast<std::size_t>(device);
  if (at >= current.size()) current.resize(at + 1);
  return std::exchange(current[at], stream);
}

}  // namespace v1
}  // namespace dlaunch
