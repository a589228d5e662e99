#include "dlaunch/object.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "dlaunch/error.h"

namespace dlaunch {
inline namespace v1 {

namespace {

// Above any sensible object: a length beyond it is a mistake, and must not become an allocation.
constexpr std::uint64_t longest = std::uint64_t{1} << 40;

ProcessGroup or_default(const ProcessGroup& group) { return group ? group : default_group(); }

std::size_t checked(std::uint64_t length) {
  if (length > longest) throw DistError("an object of " + std::to_string(length) + " bytes cannot be sent");
  return static_cast<std::size_t>(length);
}

Tensor view(std::string& bytes) {
  return Tensor::from(reinterpret_cast<std::uint8_t*>(bytes.data()),
                      {static_cast<std::int64_t>(bytes.size())});
}

std::vector<std::uint64_t> all_lengths(const ProcessGroup& group, std::uint64_t own) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(group.size()));
  const std::vector<std::int64_t> mine = {static_cast<std::int64_t>(own)};
  group.all_gather_into_tensor(Tensor::of(lengths), Tensor::of(mine));
  std::vector<std::uint64_t> result;
  result.reserve(lengths.size());
  for (const std::int64_t length : lengths) result.push_back(checked(static_cast<std::uint64_t>(length)));
  return result;
}

// `parts` cut out of blocks of equal size, as gather and scatter move them.
std::vector<Tensor> blocks(std::string& memory, std::size_t count, std::size_t size) {
  std::vector<Tensor> result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(Tensor::from(reinterpret_cast<std::uint8_t*>(memory.data() + i * size),
                                  {static_cast<std::int64_t>(size)}));
  }
  return result;
}

}  // namespace

std::vector<std::string> all_gather_bytes(const std::string& own, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  std::vector<std::string> all;
  for (const std::uint64_t length : all_lengths(group, own.size())) all.emplace_back(length, '\0');
  std::vector<Tensor> outputs;
  outputs.reserve(all.size());
  for (std::string& part : all) outputs.push_back(view(part));
  std::string input = own;
  group.all_gather(outputs, view(input));
  return all;
}

std::vector<std::string> gather_bytes(const std::string& own, int dst, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  const int root = get_group_rank(group, dst);
  const std::vector<std::uint64_t> lengths = all_lengths(group, own.size());
  // A gather is of equal blocks: as long as the longest.
  const std::size_t block = std::ranges::max(lengths);
  std::string input = own;
  input.resize(block);
  if (group.rank() != root) {
    group.gather({}, view(input), root);
    return {};
  }
  std::string memory(block * lengths.size(), '\0');
  group.gather(blocks(memory, lengths.size(), block), view(input), root);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < lengths.size(); ++i) all.push_back(memory.substr(i * block, lengths[i]));
  return all;
}

std::string broadcast_bytes(const std::string& own, int src, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  const int root = get_group_rank(group, src);
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(own.size())};
  group.broadcast(Tensor::of(length), root);
  std::string bytes = own;
  bytes.resize(checked(static_cast<std::uint64_t>(length[0])));
  group.broadcast(view(bytes), root);
  return bytes;
}

std::string scatter_bytes(std::span<const std::string> parts, int src, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  const int root = get_group_rank(group, src);
  const std::size_t size = static_cast<std::size_t>(group.size());
  const bool is_root = group.rank() == root;
  if (parts.size() != (is_root ? size : 0)) {
    throw DistError(std::to_string(parts.size()) + " objects to scatter among " + std::to_string(size) +
                        " ranks: the source gives one for each, the others none",
                    {.rank = group.rank(), .operation = "scatter_object_list", .group = group.name()});
  }
  // All ranks must know the longest, each its own.
  std::vector<std::int64_t> lengths(size + 1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    lengths[i] = static_cast<std::int64_t>(parts[i].size());
    lengths[size] = std::max(lengths[size], lengths[i]);
  }
  group.broadcast(Tensor::of(lengths), root);
  const std::size_t block = checked(static_cast<std::uint64_t>(lengths[size]));
  std::string memory;
  for (const std::string& part : parts) {
    memory += part;
    memory.append(block - part.size(), '\0');
  }
  std::string own(block, '\0');
  group.scatter(view(own), blocks(memory, parts.size(), block), root);
  own.resize(
      std::min(block, checked(static_cast<std::uint64_t>(lengths[static_cast<std::size_t>(group.rank())]))));
  return own;
}

void send_bytes(const std::string& own, int dst, const ProcessGroup& given) {
  const ProcessGroup group = or_default(given);
  const int peer = get_group_rank(group, dst);
  const std::vector<std::int64_t> length = {static_cast<std::int64_t>(own.size())};
  std::string bytes = own;
  const std::vector<P2POp> both = {{P2POp::Kind::isend, Tensor::of(length), peer},
                                   {P2POp::Kind::isend, view(bytes), peer}};
  for (const Work& sent : group.batch_isend_irecv(both)) sent.wait();
}

std::string recv_bytes(int src, const ProcessGroup& given, int* source) {
  const ProcessGroup group = or_default(given);
  std::vector<std::int64_t> length(1);
  const int peer =
      group.recv(Tensor::of(length), src == any_source ? any_source : get_group_rank(group, src));
  std::string bytes(checked(static_cast<std::uint64_t>(length[0])), '\0');
  group.recv(view(bytes), peer);
  if (source) *source = get_global_rank(group, peer);
  return bytes;
}

}  // namespace v1
}  // namespace dlaunch
