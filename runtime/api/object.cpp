#include "dlaunch/object.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/group/group_impl.h"
#include "runtime/staging/carried_memory.h"

namespace dlaunch {
using namespace internal;
inline namespace v1 {

namespace {

using object_detail::or_default;

std::uint64_t machines_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// The memory for data that other ranks have announced. A length is checked before it is allocated: the kernel
// grants more memory than there is, and ends the process that uses it.
class Room {
 public:
  Room(ProcessGroup group, const char* operation) : group_(std::move(group)), operation_(operation) {}

  // `length` zero bytes for the data of `peer`. If that is too much, the group is aborted, since others wait
  // for this rank.
  std::string take(std::uint64_t length, int peer) {
    if (length > left_) refuse(length, peer);
    try {
      std::string bytes(static_cast<std::size_t>(length), '\0');
      left_ -= length;
      return bytes;
    } catch (const std::bad_alloc&) {
      refuse(length, peer);
    }
  }
  std::string take(std::int64_t length, int peer) { return take(static_cast<std::uint64_t>(length), peer); }

 private:
  [[noreturn]] void refuse(std::uint64_t length, int peer) const {
    const DistNetworkError error(
        "there is no memory for an object of " + std::to_string(length) + " bytes",
        {.rank = group_.rank(), .operation = operation_, .group = group_.name(), .peer = peer});
    group_.abort(error.what());
    throw DistNetworkError(error);
  }

  const ProcessGroup group_;
  const char* const operation_;
  std::uint64_t left_ = machines_memory();
};

bool skips_as_non_member(const ProcessGroup& group, const char* operation) {
  return GroupImpl::of(group).skips_as_non_member(operation);
}

// By rank. An invalid length becomes one that is larger than any memory.
std::vector<std::uint64_t> all_lengths(const ProcessGroup& group, std::uint64_t own) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(group.size()));
  std::vector<std::int64_t> mine = {static_cast<std::int64_t>(own)};
  CarriedMemory memory(group);
  group.all_gather_into_tensor(memory.of(lengths), memory.of(mine));
  memory.fetch();
  return {lengths.begin(), lengths.end()};
}

template <class Content>
void broadcast_from(const ProcessGroup& group, int root, Content& content) {
  CarriedMemory memory(group);
  group.broadcast(memory.of(content), root);
  memory.fetch();
}

// NCCL has no tags: over it the program's messages and these match in the order of the calls.
GroupImpl::Tags tags_of(const CarriedMemory& memory) {
  return memory.is_on_device() ? GroupImpl::Tags::program : GroupImpl::Tags::objects;
}

template <class Content>
void send_to(const ProcessGroup& group, int peer, Content& content) {
  CarriedMemory memory(group);
  GroupImpl::of(group).isend(memory.of(content), peer, {}, tags_of(memory), true).synchronize();
}

// Returns the sender.
template <class Content>
int receive_from(const ProcessGroup& group, int peer, Content& content) {
  CarriedMemory memory(group);
  const Work work = GroupImpl::of(group).irecv(memory.of(content), peer, {}, tags_of(memory), true);
  work.synchronize();
  memory.fetch();
  return work.source_rank();
}

}  // namespace

std::vector<std::string> all_gather_bytes(const std::string& own, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  if (skips_as_non_member(group, "all_gather_object")) return {};
  Room room(group, "all_gather_object");
  std::vector<std::string> all;
  for (const std::uint64_t length : all_lengths(group, own.size())) {
    all.push_back(room.take(length, static_cast<int>(all.size())));
  }
  CarriedMemory memory(group);
  std::vector<Tensor> outputs;
  outputs.reserve(all.size());
  for (std::string& part : all) outputs.push_back(memory.of(part));
  std::string input = own;
  group.all_gather(outputs, memory.of(input));
  memory.fetch();
  return all;
}

std::vector<std::string> gather_bytes(const std::string& own, int dst, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  if (skips_as_non_member(group, "gather_object")) return {};
  const int root = get_group_rank(group, dst);
  const std::vector<std::uint64_t> lengths = all_lengths(group, own.size());
  // A gather needs equal blocks: all are as long as the longest.
  const auto longest = std::ranges::max_element(lengths);
  const int its_rank = static_cast<int>(longest - lengths.begin());
  Room room(group, "gather_object");
  std::string input = room.take(*longest, its_rank);
  own.copy(input.data(), own.size());
  const std::size_t block = input.size();
  CarriedMemory memory(group);
  if (group.rank() != root) {
    group.gather({}, memory.of(input), root);
    memory.fetch();
    return {};
  }
  std::string gathered = room.take(block * lengths.size(), its_rank);
  group.gather(memory.blocks(gathered, lengths.size(), block), memory.of(input), root);
  memory.fetch();
  std::vector<std::string> all;
  for (std::size_t i = 0; i < lengths.size(); ++i) all.push_back(gathered.substr(i * block, lengths[i]));
  return all;
}

std::string broadcast_bytes(const std::string& own, int src, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  if (skips_as_non_member(group, "broadcast_object_list")) return own;
  const int root = get_group_rank(group, src);
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(own.size())};
  broadcast_from(group, root, length);
  std::string bytes = group.rank() == root ? own : Room(group, "broadcast_object_list").take(length[0], root);
  broadcast_from(group, root, bytes);
  return bytes;
}

std::string scatter_bytes(std::span<const std::string> parts, int src, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  if (skips_as_non_member(group, "scatter_object_list")) return {};
  const int root = get_group_rank(group, src);
  const std::size_t size = static_cast<std::size_t>(group.size());
  if (group.rank() != root) parts = {};
  if (group.rank() == root && parts.size() != size) {
    throw DistError(std::to_string(parts.size()) + " objects to scatter among " + std::to_string(size) +
                        " ranks: the source gives one for each",
                    {.rank = group.rank(), .operation = "scatter_object_list", .group = group.name()});
  }
  // All ranks need the longest length, and each rank its own.
  std::vector<std::int64_t> lengths(size + 1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    lengths[i] = static_cast<std::int64_t>(parts[i].size());
    lengths[size] = std::max(lengths[size], lengths[i]);
  }
  broadcast_from(group, root, lengths);
  Room room(group, "scatter_object_list");
  std::string own = room.take(lengths[size], root);
  const std::size_t block = own.size();
  std::string scattered;
  for (const std::string& part : parts) {
    scattered += part;
    scattered.append(block - part.size(), '\0');
  }
  CarriedMemory memory(group);
  const Tensor output = memory.of(own);
  group.scatter(output, memory.blocks(scattered, parts.size(), block), root);
  memory.fetch();
  const auto length = static_cast<std::uint64_t>(lengths[static_cast<std::size_t>(group.rank())]);
  own.resize(std::min<std::uint64_t>(block, length));
  return own;
}

void send_bytes(const std::string& own, int dst, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  if (skips_as_non_member(group, "send_object_list")) return;
  const int peer = get_group_rank(group, dst);
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(own.size())};
  std::string bytes = own;
  send_to(group, peer, length);
  send_to(group, peer, bytes);
}

std::string recv_bytes(int src, const ProcessGroup& given, int* source) {
  const ProcessGroup group = or_default(given);
  if (skips_as_non_member(group, "recv_object_list")) {
    if (source) *source = -1;
    return {};
  }
  std::vector<std::int64_t> length(1);
  const int peer = receive_from(group, src == any_source ? any_source : get_group_rank(group, src), length);
  std::string bytes = Room(group, "recv_object_list").take(length[0], peer);
  receive_from(group, peer, bytes);
  if (source) *source = get_global_rank(group, peer);
  return bytes;
}

}  // namespace v1
}  // namespace dlaunch
