// What the processes of a communicator of the double of NCCL share: a page of memory in which each rank
// states what it is at, and the device memory of all of them. A process that dies leaves nothing behind.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace doubles {

inline constexpr std::size_t most_ranks = 16;

// Names a page that this process holds, within the 128 bytes of a unique id.
struct WorldName {
  pid_t process;
  int descriptor;
};

// What a rank gives to a split, and what the first rank of a color makes in it.
struct SplitPart {
  int color;
  int key;
  WorldName name;
};

// What a rank gives to a collective; all ranks must have the same `kind`, `dtype`, `op`, `root` and `count`.
struct Contribution {
  std::uint32_t kind;
  std::uint32_t dtype;
  std::uint32_t op;
  std::int32_t root;
  std::uint64_t count;
  double factor;              // of an operator that multiplies first
  std::uint64_t send_offset;  // in this rank's device memory
};

// From one rank to another; the sender waits for the receiver.
struct Channel {
  std::atomic<std::uint64_t> posted;
  std::atomic<std::uint64_t> taken;
  std::atomic<std::uint64_t> offset;
  std::atomic<std::uint64_t> bytes;
};

struct RankPage {
  std::atomic<pid_t> process;
  std::atomic<int> memory_descriptor;
  std::atomic<int> device;
  std::atomic<bool> is_here;
  std::atomic<bool> has_connected;  // it has come to its first collective
  // How many collectives this rank has come to, and of how many it has read the others' data.
  std::atomic<std::uint64_t> posted;
  std::atomic<std::uint64_t> read;
  Contribution contribution;  // to the latest one: the next begins when all have read it
  // How many splits this rank has come to, in how many it has made the page of its color if it had to, and of
  // how many it has read the others' parts.
  std::atomic<std::uint64_t> split_posted;
  std::atomic<std::uint64_t> split_named;
  std::atomic<std::uint64_t> split_read;
  SplitPart split;
  std::array<Channel, most_ranks> to;
};

struct WorldPage {
  std::array<RankPage, most_ranks> ranks;
};

class World {
 public:
  // Makes a page; it lives as long as this process, and those that have joined.
  static WorldName create();

  World(WorldName name, int rank, int size);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Whether all ranks are here. Does not wait.
  bool join();
  // This rank has come to a collective. Whether all have: the first one connects them. Does not wait.
  bool all_have_connected();
  // Where this rank is in a split of all ranks with this number, from 1; `wait` returns false if it has to
  // give up: then it has none. A rank without a color has none, too.
  struct Place {
    WorldName name;
    int rank;
    int size;
  };
  std::optional<Place> split(std::uint64_t number, int color, int key,
                             const std::function<bool(const std::function<bool()>&)>& wait);
  // Another rank with the same device; -1: none. REQUIRES: join() was true.
  [[nodiscard]] int rank_on_same_device() const;
  [[nodiscard]] const std::byte* memory_of(int rank, std::uint64_t offset) const {
    return memory_[static_cast<std::size_t>(rank)] + offset;
  }
  [[nodiscard]] RankPage& page(int rank) { return page_->ranks[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

 private:
  WorldName name_;
  int rank_;
  int size_;
  WorldPage* page_ = nullptr;
  std::array<const std::byte*, most_ranks> memory_{};
};

}  // namespace doubles
