#include "tests/doubles/nccl_world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/doubles/cuda_device.h"

namespace doubles {

namespace {

// Memory that another process of this user holds; null if it is not there.
void* map_of(pid_t process, int descriptor, std::size_t length) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return nullptr;
  void* const address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  close(opened);
  return address != MAP_FAILED ? address : nullptr;
}

}  // namespace

WorldName World::create() {
  const int descriptor = memfd_create("communicator of the NCCL double", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(WorldPage)) != 0) std::perror("NCCL double");
  return {getpid(), descriptor};
}

World::World(WorldName name, int rank, int size) : name_(name), rank_(rank), size_(size) {}

World::~World() {
  for (const std::byte* const memory : memory_) {
    if (memory != nullptr) munmap(const_cast<std::byte*>(memory), DeviceMemory::size);
  }
  if (page_ != nullptr) munmap(page_, sizeof(WorldPage));
}

bool World::join() {
  if (page_ == nullptr) {
    page_ = static_cast<WorldPage*>(map_of(name_.process, name_.descriptor, sizeof(WorldPage)));
    if (page_ == nullptr) return false;
    RankPage& own = page(rank_);
    own.process = getpid();
    own.memory_descriptor = device_memory().descriptor();
    own.device = current_device();
    own.is_here = true;
  }
  for (int rank = 0; rank < size_; ++rank) {
    const std::byte*& memory = memory_[static_cast<std::size_t>(rank)];
    if (memory != nullptr) continue;
    const RankPage& other = page(rank);
    if (!other.is_here) return false;
    memory =
        static_cast<const std::byte*>(map_of(other.process, other.memory_descriptor, DeviceMemory::size));
    if (memory == nullptr) return false;
  }
  return true;
}

bool World::all_have_connected() {
  page(rank_).has_connected = true;
  return std::all_of(page_->ranks.begin(), page_->ranks.begin() + size_,
                     [](const RankPage& one) { return one.has_connected.load(); });
}

std::optional<World::Place> World::split(std::uint64_t number, int color, int key,
                                         const std::function<bool(const std::function<bool()>&)>& wait) {
  const auto all_are_at = [&](std::atomic<std::uint64_t> RankPage::*counter, std::uint64_t least) {
    return wait([this, counter, least] {
      return std::all_of(page_->ranks.begin(), page_->ranks.begin() + size_,
                         [&](RankPage& one) { return (one.*counter).load() >= least; });
    });
  };
  RankPage& own = page(rank_);
  if (!all_are_at(&RankPage::split_read, number - 1)) return std::nullopt;
  own.split = {color, key, {}};
  own.split_posted = number;
  if (!all_are_at(&RankPage::split_posted, number)) return std::nullopt;
  std::vector<std::pair<int, int>> order;  // key and rank
  for (int rank = 0; rank < size_; ++rank) {
    if (page(rank).split.color == color) order.emplace_back(page(rank).split.key, rank);
  }
  std::ranges::sort(order);
  const int first = order.front().second;
  if (color >= 0 && first == rank_) own.split.name = create();
  own.split_named = number;
  if (!all_are_at(&RankPage::split_named, number)) return std::nullopt;
  const WorldName name = page(first).split.name;
  own.split_read = number;
  if (color < 0) return std::nullopt;
  const auto place = std::ranges::find(order, std::pair(key, rank_));
  return Place{name, static_cast<int>(place - order.begin()), static_cast<int>(order.size())};
}

int World::rank_on_same_device() const {
  for (int rank = 0; rank < size_; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank != rank_ && page_->ranks[at].device == page_->ranks[static_cast<std::size_t>(rank_)].device)
      return rank;
  }
  return -1;
}

}  // namespace doubles
