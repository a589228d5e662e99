// What a run needs to go on after a restart, as a file that is either whole or not there.
//
// The file keeps the fencing token of the world that wrote it, and is not replaced by a world with a lower
// one: that world is over, and a later one goes on from the file. Token and file are compared and replaced
// under a lock, PATH.lock, which is there only meanwhile.
//
// The file, little-endian:
//   "MNISTCKP"            8 bytes
//   version               u32, 2
//   epochs done           u32
//   seed                  u64
//   batch size            u64
//   learning rate         f32
//   training images       u32
//   fencing token         u64
//   parameters, N         u64
//   parameters, velocity  f32, N each
//   CRC-32 of all before  u32
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mnist {

// What decides a run's arithmetic. A checkpoint of other settings belongs to another run.
struct RunSettings {
  std::uint64_t seed = 0;
  std::uint64_t batch_size = 0;
  float learning_rate = 0;
  std::uint32_t training_images = 0;

  bool operator==(const RunSettings&) const = default;
};

struct Checkpoint {
  RunSettings settings;
  std::uint32_t epochs_done = 0;
  std::vector<float> parameters;
  std::vector<float> velocity;      // as long as parameters
  std::uint64_t fencing_token = 0;  // of the world that wrote it; 0: not started by dlaunch

  bool operator==(const Checkpoint&) const = default;
};

// The file's bytes. Requires parameters and velocity of one length.
std::vector<std::byte> encode(const Checkpoint& checkpoint);

// The opposite. `path` is only named in the DataError that anything but encode's exact bytes gives.
Checkpoint decode(std::span<const std::byte> bytes, const std::string& path);

// Nothing if there is no such file. Throws DataError if there is one that cannot be read, is not a
// checkpoint, is truncated or corrupt; takes no more memory than a true checkpoint of the file's size needs.
std::optional<Checkpoint> read_checkpoint(const std::string& path);

// Throws DataError if the checkpoint does not belong to a run of these settings and this many parameters.
void require_fits(const Checkpoint& checkpoint, const std::string& path, const RunSettings& settings,
                  std::size_t parameters);

// Throws DataError if write_checkpoint(path) could not work: better known before an epoch's work than after.
void require_writable(const std::string& path);

// When it returns, the file is on the disk, whole. If it throws DataError, or the machine dies meanwhile,
// whatever was at `path` before is still there (beside it, after a death, may lie a temporary file
// `path`.XXXXXX). It throws if what is there has a higher fencing token, or is no checkpoint.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// No file is no error. Throws DataError if the file has a higher fencing token than `fencing_token`.
void remove_checkpoint(const std::string& path, std::uint64_t fencing_token);

}  // namespace mnist
