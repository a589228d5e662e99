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
  ByteWriter(bytes)
      .text(worker.name)
      .u32(worker.id)
      .text(worker.host)
      .text(to_text(worker.contact))
      .u32(worker.rank)
      .u32(static_cast<std::uint32_t>(worker.pid));
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
  if (!reader.done() || !contact || !why_no_worker_name(worker.name).empty()) return std::nullopt;
  worker.contact = *contact;
  return worker;
}

}  // namespace dlaunch::internal
