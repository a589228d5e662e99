// The format of PyTorch's FileStore: a file of records. A record is a key and a value, each preceded by its
// length (u32, little-endian). A later record replaces an earlier one of the same key.
//
//   "/<key>"              a user's key
//   "-/<key>", no value   the key is deleted
//   "refcount/"           how many stores have the file open (PyTorch 2.x)
//   "cleanup/"            how many stores have been closed
//
// Everything here is pure: no I/O, no state beside the arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/base/bytes.h"
#include "store/protocol/limits.h"

namespace dlaunch::store {

struct FileRecord {
  std::string_view key;  // with the mark in front
  std::string_view value;
};

struct DecodedFileRecord {
  enum class Status { whole, more, bad };
  Status status = Status::bad;
  std::uint64_t size = 0;  // of a whole record; else at least so many bytes of it
  std::string_view why;    // bad: the reason
  FileRecord record;       // whole: points into the bytes
};

// Decodes the record that `bytes` begins with. A length is believed only up to the limits, and nothing is
// allocated.
DecodedFileRecord decode_file_record(ByteSpan bytes, const StoreLimits& limits);

// Appends the record. REQUIRES: key and value are within the limits.
void encode_file_record(const FileRecord& record, std::string& out);

}  // namespace dlaunch::store
