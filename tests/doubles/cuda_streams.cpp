#include "tests/doubles/cuda_streams.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "tests/doubles/cuda_graphs.h"

namespace doubles {

namespace {

using std::chrono::microseconds;

// Half of the operations are not begun before a time of up to this.
constexpr std::uint64_t latest_us = 200;
// Between two looks at what waits for other processes.
constexpr microseconds between_looks(50);

std::uint64_t seed() {
  const char* const text = std::getenv("CUDA_DOUBLE_SEED");
  const char* const rank = std::getenv("RANK");
  return 1'000'003U * (text != nullptr ? std::strtoull(text, nullptr, 10) : 1) +
         (rank != nullptr ? std::strtoull(rank, nullptr, 10) : 0);
}

std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

bool has_passed(const Place& place) { return !place.capture && place.stream->completed >= place.number; }

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

}  // namespace

cudaStreamCaptureMode& capture_mode_of_thread() { return mode_of_thread; }

Streams::Streams() : random_(seed()) {}

std::uint64_t Streams::draw_locked(std::uint64_t limit) { return random_() % (limit + 1); }

std::uint64_t Streams::draw(std::uint64_t limit) {
  const std::lock_guard lock(mutex_);
  return draw_locked(limit);
}

StreamPointer Streams::make(int device, bool is_blocking) {
  const std::lock_guard lock(mutex_);
  all_.push_back(std::make_shared<Stream>(device, is_blocking));
  return all_.back();
}

void Streams::forget(const StreamPointer& stream) {
  const std::lock_guard lock(mutex_);
  stream->is_forgotten = true;
  if (stream->entries.empty()) std::erase(all_, stream);
}

StreamPointer Streams::default_stream(int device) {
  const std::lock_guard lock(mutex_);
  for (const StreamPointer& stream : defaults_) {
    if (stream->device == device) return stream;
  }
  all_.push_back(std::make_shared<Stream>(device, true));
  defaults_.push_back(all_.back());
  return all_.back();
}

void Streams::add(const StreamPointer& stream, Step step, std::vector<Place> after) {
  add_made(
      stream, [step = std::move(step)] { return step; }, std::move(after));
}

void Streams::add_made(const StreamPointer& stream, const StepMaker& make, std::vector<Place> after) {
  const std::lock_guard lock(mutex_);
  if (capture(stream, make, after)) return;
  const bool is_default = std::ranges::find(defaults_, stream) != defaults_.end();
  for (const StreamPointer& other : all_) {
    if (other == stream || other->device != stream->device || !other->is_blocking || !stream->is_blocking)
      continue;
    const bool other_is_default = std::ranges::find(defaults_, other) != defaults_.end();
    if (is_default || other_is_default) after.push_back({other, other->enqueued});
  }
  const auto delay = draw_locked(1) == 0 ? microseconds(0) : microseconds(draw_locked(latest_us));
  stream->entries.push_back({make(), std::move(after), now() + delay});
  ++stream->enqueued;
  if (!std::exchange(is_running_, true)) std::thread([this] { run(); }).detach();  // ends with the process
  changed_.notify_all();
}

bool Streams::capture(const StreamPointer& stream, const StepMaker& make, const std::vector<Place>& after) {
  for (const Place& place : after) {
    if (stream->capture || !place.capture) continue;
    stream->capture = place.capture;
    place.capture->streams.push_back(stream);
  }
  if (!stream->capture) return false;
  Capture& graph = *stream->capture;
  CapturedNode node{stream, make, {}};
  if (stream->last_node) node.after.push_back(*stream->last_node);
  for (const Place& place : after) {
    if (place.capture != stream->capture) graph.is_invalid = true;  // of what is outside of the graph
    node.after.push_back(place.node);
  }
  stream->last_node = graph.nodes.size();
  graph.nodes.push_back(std::move(node));
  return true;
}

cudaError_t Streams::begin_capture(const StreamPointer& stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(defaults_, stream) != defaults_.end()) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>(Capture{stream, mode, &mode_of_thread, false, {}, {stream}});
  captures_.push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t Streams::end_capture(const StreamPointer& stream, std::shared_ptr<Capture>& made) {
  const std::lock_guard lock(mutex_);
  if (!stream->capture || stream->capture->origin != stream) return cudaErrorIllegalState;
  made = stream->capture;
  std::erase(captures_, made);
  const bool all_joined = is_joined(*made);
  for (const StreamPointer& one : made->streams) {
    one->capture = nullptr;
    one->last_node.reset();
  }
  if (made->is_invalid) return cudaErrorStreamCaptureInvalidated;
  return all_joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

bool Streams::is_open(const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(captures_, capture) != captures_.end();
}

cudaStreamCaptureStatus Streams::capture_status(const StreamPointer& stream) {
  const std::lock_guard lock(mutex_);
  if (!stream->capture) return cudaStreamCaptureStatusNone;
  return stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

cudaError_t Streams::check_no_capture() {
  const std::lock_guard lock(mutex_);
  cudaError_t result = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool is_own = capture->thread == &mode_of_thread && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool is_global =
        capture->mode == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal;
    if (mode_of_thread == cudaStreamCaptureModeRelaxed || !(is_own || is_global)) continue;
    capture->is_invalid = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

Place Streams::end_of(const StreamPointer& stream) {
  const std::lock_guard lock(mutex_);
  if (stream->capture) return {stream, 0, stream->capture, stream->last_node.value_or(0)};
  return {stream, stream->enqueued};
}

bool Streams::is_reached(const Place& place) {
  const std::lock_guard lock(mutex_);
  return has_passed(place);
}

void Streams::wait(const Place& place) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_passed(place); });
}

void Streams::wait_for_device(int device) {
  std::vector<Place> ends;
  {
    const std::lock_guard lock(mutex_);
    for (const StreamPointer& stream : all_) {
      if (stream->device == device) ends.push_back({stream, stream->enqueued});
    }
  }
  for (const Place& end : ends) wait(end);
}

// One operation of a stream that may run; false: there is none.
bool Streams::run_one(std::unique_lock<std::mutex>& lock) {
  std::vector<StreamPointer> ready;
  const auto moment = now();
  for (const StreamPointer& stream : all_) {
    if (stream->entries.empty()) continue;
    const Stream::Entry& first = stream->entries.front();
    if (first.not_before <= moment && std::ranges::all_of(first.after, has_passed)) ready.push_back(stream);
  }
  if (ready.empty()) return false;
  const StreamPointer stream = ready[draw_locked(ready.size() - 1)];
  Stream::Entry& entry = stream->entries.front();  // stays where it is: others are added behind it only
  lock.unlock();
  const bool is_done = entry.step();
  lock.lock();
  if (!is_done) {
    entry.not_before = now() + between_looks;
    return true;
  }
  Stream::Entry ended = std::move(entry);
  stream->entries.pop_front();
  ++stream->completed;
  if (stream->is_forgotten && stream->entries.empty()) std::erase(all_, stream);
  changed_.notify_all();
  lock.unlock();
  ended = {};  // what it holds may call back
  lock.lock();
  return true;
}

void Streams::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (run_one(lock)) continue;
    const bool is_idle =
        std::ranges::all_of(all_, [](const StreamPointer& stream) { return stream->entries.empty(); });
    if (is_idle) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, between_looks);
    }
  }
}

}  // namespace doubles
