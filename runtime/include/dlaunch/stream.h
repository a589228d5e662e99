// The CUDA stream on which a thread of the program works, without CUDA's headers.
//
// An operation on CUDA tensors starts after what is in the calling thread's current stream at that moment,
// and Work::wait() makes the current stream of its thread wait for the operation. So a program that does its
// own work on the current stream need not synchronize anything itself:
//
//   cudaStream_t mine = ...;
//   dlaunch::StreamGuard guard({mine}, 0);
//   fill<<<blocks, threads, 0, mine>>>(values);
//   dlaunch::all_reduce(tensor);                // after fill
//   use<<<blocks, threads, 0, mine>>>(values);  // after all_reduce
#pragma once

#include <optional>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

struct Stream {
  void* handle = nullptr;  // a cudaStream_t; null: the default stream

  bool operator==(const Stream&) const = default;
};

// Of this thread on CUDA device `device`: the one that it has set, else that of the source of streams, else
// the default stream. DistError if the device's number is negative or above 1023.
DLAUNCH_EXPORT Stream current_stream(int device = 0);
// None: the thread has set none any more. Returns what it had set before. The stream must exist as long as it
// is the current one.
DLAUNCH_EXPORT std::optional<Stream> set_current_stream(std::optional<Stream> stream, int device = 0);

// For frameworks whose threads have current streams of their own: this function is asked for the stream of a
// thread that has set none here. Any thread calls it, often; it must not throw. Null: there is none.
// libdlaunch_torch sets LibTorch's.
using StreamSource = Stream (*)(int device);
DLAUNCH_EXPORT void set_stream_source(StreamSource source);
DLAUNCH_EXPORT StreamSource stream_source();

// The current stream of its thread for as long as it lives.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream, int device = 0)
      : device_(device), before_(set_current_stream(stream, device)) {}
  ~StreamGuard() { set_current_stream(before_, device_); }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  int device_;
  std::optional<Stream> before_;
};

}  // namespace v1
}  // namespace dlaunch
