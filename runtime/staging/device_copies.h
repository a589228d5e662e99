// What libdlaunch.so itself needs of CUDA, as the module cuda_staging.so (runtime/cuda) offers it: it
// includes no header of CUDA.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace dlaunch::internal {

// Copies between one device and memory of this host, on streams of their own. If the memory is not pinned,
// the call may last as long as the copy. Any thread. The members throw DistBackendError that names the call
// of CUDA that has failed, unless they are noexcept.
class DeviceCopies {
 public:
  // A place in a stream: reached when what was in the stream before it has ended. Null: reached already.
  using Place = std::shared_ptr<void>;
  struct Copy {
    void* device;
    std::byte* host;
    std::size_t bytes;
  };

  virtual ~DeviceCopies() = default;
  // Behind what is in the calling thread's current stream now.
  virtual Place current() = 0;
  // Starts the copies when `after` is reached; returns the place behind them. Each has a stream, in which the
  // copies run in the order of these calls.
  virtual Place to_host(std::span<const Copy> copies, const Place& after) = 0;
  virtual Place to_device(std::span<const Copy> copies, const Place& after) = 0;
  // Within the device, in the calling thread's current stream.
  virtual void copy_within(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* memory, std::size_t bytes) = 0;  // to zeros
  virtual bool is_reached(const Place& place) = 0;
  // What the calling thread adds to its current stream from now on waits for the place. False: it failed.
  virtual bool order_current(const Place& place) noexcept = 0;
  // Whether the calling thread's current stream is being captured into a CUDA graph.
  virtual bool is_capturing() = 0;
};

// The module's table. Everything in it is valid until the process ends.
struct StagingModule {
  // Why CUDA's runtime cannot be used. One clause; empty: it can.
  std::string (*why_not)();
  // Throws DistBackendError, for example if there is no such device.
  std::unique_ptr<DeviceCopies> (*open)(int device);
  // Pinned memory. Null: there is none.
  void* (*allocate)(std::size_t bytes) noexcept;
  void (*release)(void* memory) noexcept;
  // The calling thread's device, and memory of a device. Null: there is none.
  int (*current_device)();
  void* (*allocate_on_device)(int device, std::size_t bytes) noexcept;
  void (*release_on_device)(int device, void* memory) noexcept;  // waits for the device
  // Of a thread that only looks after copies: what it calls does not end a capture of another thread.
  void (*enter_thread)() noexcept;
};

inline constexpr const char* staging_module_file = "cuda_staging.so";
inline constexpr const char* staging_module_symbol = "dlaunch_staging_module";

}  // namespace dlaunch::internal
