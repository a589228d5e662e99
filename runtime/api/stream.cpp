#include "dlaunch/stream.h"

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"

namespace dlaunch {
inline namespace v1 {

namespace {

constexpr int most_devices = 1024;
thread_local std::vector<std::optional<Stream>> current;  // by device; shorter: none was set
std::atomic<StreamSource> source = nullptr;

void require_device(int device) {
  if (device >= 0 && device < most_devices) return;
  throw DistError("there is no CUDA device " + std::to_string(device));
}

}  // namespace

Stream current_stream(int device) {
  require_device(device);
  const auto at = static_cast<std::size_t>(device);
  if (at < current.size() && current[at]) return *current[at];
  const StreamSource asked = stream_source();
  return asked != nullptr ? asked(device) : Stream();
}

std::optional<Stream> set_current_stream(std::optional<Stream> stream, int device) {
  require_device(device);
  const auto at = static_cast<std::size_t>(device);
  if (at >= current.size()) current.resize(at + 1);
  return std::exchange(current[at], stream);
}

void set_stream_source(StreamSource of_the_program) {
  source.store(of_the_program, std::memory_order_release);
}

StreamSource stream_source() { return source.load(std::memory_order_acquire); }

}  // namespace v1
}  // namespace dlaunch
