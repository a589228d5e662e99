#include "store/client/file_record.h"

namespace dlaunch::store {

DecodedFileRecord decode_file_record(ByteSpan bytes, const StoreLimits& limits) {
  using Status = DecodedFileRecord::Status;
  constexpr std::uint64_t length_size = sizeof(std::uint32_t);
  if (bytes.size() < length_size) return {Status::more, 2 * length_size, {}, {}};
  const std::uint64_t key_size = ByteReader(bytes).u32();
  // No store writes an empty key: every key has its mark. A hole in the file reads as one.
  if (key_size == 0) return {Status::bad, 0, "its key is empty", {}};
  if (key_size > limits.key_bytes) return {Status::bad, 0, "its key is longer than the limit", {}};
  const std::uint64_t head = length_size + key_size + length_size;
  if (bytes.size() < head) return {Status::more, head, {}, {}};
  const std::uint64_t value_size = ByteReader(bytes.subspan(length_size + key_size)).u32();
  if (value_size > limits.value_bytes) return {Status::bad, 0, "its value is longer than the limit", {}};
  if (bytes.size() < head + value_size) return {Status::more, head + value_size, {}, {}};
  const FileRecord record{as_text(bytes.subspan(length_size, key_size)),
                          as_text(bytes.subspan(head, value_size))};
  return {Status::whole, head + value_size, {}, record};
}

void encode_file_record(const FileRecord& record, std::string& out) {
  ByteWriter(out).u32(static_cast<std::uint32_t>(record.key.size()));
  out.append(record.key);
  ByteWriter(out).u32(static_cast<std::uint32_t>(record.value.size()));
  out.append(record.value);
}

}  // namespace dlaunch::store
