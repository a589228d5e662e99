// libFuzzer: a FileStore's file. A decoded record must encode to the same bytes, and a truncated record is no
// record.
#include <string>

#include "store/client/file_record.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::store;

void fuzz(FuzzInput input) {
  using Status = DecodedFileRecord::Status;
  StoreLimits limits;
  limits.key_bytes = 64;
  limits.value_bytes = 1024;
  ByteSpan rest = input.bytes();
  while (!rest.empty()) {
    const auto decoded = decode_file_record(rest, limits);
    if (decoded.status == Status::more) {
      require(decoded.size > rest.size());
      break;
    }
    if (decoded.status == Status::bad) {
      require(!decoded.why.empty());
      break;
    }
    require(decoded.size > 0 && decoded.size <= rest.size());
    std::string again;
    encode_file_record(decoded.record, again);
    require(again == as_text(rest.first(decoded.size)));
    require(decode_file_record(rest.first(decoded.size - 1), limits).status != Status::whole);
    rest = rest.subspan(decoded.size);
  }
}

}  // namespace
