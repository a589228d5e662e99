#include "runtime/rpc/worker_contact.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "runtime/rpc_protocol/call_message.h"
#include "store/base/bytes.h"
#include "store/base/text.h"

namespace dlaunch::internal {

namespace {

constexpr std::size_t longest_contact = 1024;

bool may_be_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-:.").find(c) != std::string_view::npos;
}

void write(ByteWriter& writer, const WorkerDevices& devices) {
  const auto number = [&](std::size_t value) { writer.u32(static_cast<std::uint32_t>(value)); };
  number(static_cast<std::size_t>(devices.count));
  number(devices.used.size());
  for (const int device : devices.used) writer.integer(device);
  number(devices.maps.size());
  for (const auto& [callee, map] : devices.maps) {
    writer.text(callee);
    number(map.size());
    for (const auto& [from, to] : map) writer.integer(from).integer(to);
  }
}

WorkerDevices read_devices(ByteReader& reader) {
  WorkerDevices devices;
  devices.count = reader.integer<int>();
  for (std::uint32_t left = reader.u32(); left > 0 && reader.ok(); --left)
    devices.used.push_back(reader.integer<int>());
  for (std::uint32_t left = reader.u32(); left > 0 && reader.ok(); --left) {
    WorkerDevices::Map& map = devices.maps[std::string(reader.text(longest_worker_name))];
    for (std::uint32_t pairs = reader.u32(); pairs > 0 && reader.ok(); --pairs) {
      const int from = reader.integer<int>();
      map[from] = reader.integer<int>();
    }
  }
  return devices;
}

}  // namespace

std::string why_no_worker_name(const std::string& name) {
  if (name.empty()) return "a worker needs a name";
  if (name.size() > longest_worker_name)
    return "a worker's name has at most " + std::to_string(longest_worker_name) + " characters";
  if (!std::ranges::all_of(name, may_be_in_name))
    return "the worker's name " + quoted(name) + " has other characters than letters, digits, _ - : and .";
  return {};
}

std::string describe(const WorkerContact& worker) {
  if (worker.name.empty()) return "worker " + std::to_string(worker.rank);
  return "worker " + worker.name + " (rank " + std::to_string(worker.rank) + ") on host " + worker.host;
}

std::string describe_process(const WorkerContact& worker) {
  return describe(worker) + " (pid " + std::to_string(worker.pid) + ")";
}

std::string to_text(const WorkerContact& worker) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.text(worker.name)
      .u32(worker.id)
      .text(worker.host)
      .text(to_text(worker.contact))
      .u32(worker.rank)
      .u32(static_cast<std::uint32_t>(worker.pid));
  write(writer, worker.devices);
  for (const std::uint64_t word : worker.processors) writer.u64(word);
  return bytes;
}

std::optional<WorkerContact> parse_worker_contact(const std::string& text) {
  ByteReader reader(as_byte_span(text));
  WorkerContact worker;
  worker.name = reader.text(longest_worker_name);
  worker.id = reader.u32();
  worker.host = reader.text(longest_host_name);
  const std::optional<Contact> contact = parse_contact(std::string(reader.text(longest_contact)));
  worker.rank = reader.u32();
  worker.pid = static_cast<std::int32_t>(reader.u32());
  worker.devices = read_devices(reader);
  for (std::uint64_t& word : worker.processors) word = reader.u64();
  if (!reader.done() || !contact || !why_no_worker_name(worker.name).empty()) return std::nullopt;
  worker.contact = *contact;
  return worker;
}

}  // namespace dlaunch::internal
