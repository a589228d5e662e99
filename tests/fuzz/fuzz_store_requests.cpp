// libFuzzer: the request parser of one dialect of PyTorch's protocol, GENERATION. A decoded stream must
// encode to the same bytes, and cutting the stream anywhere must not change the result.
#include <string>

#include "store/protocol/wire.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::store;

void fuzz(FuzzInput input) {
  constexpr Dialect dialect = Dialect::GENERATION;
  StoreLimits limits;
  limits.request_bytes = 1 << 16;
  ByteSpan rest = input.bytes();
  Request request;
  while (!rest.empty()) {
    const Decoded decoded = decode(dialect, rest, limits, request);
    if (decoded.status == Decoded::Status::more) {
      require(decoded.size > rest.size());
      break;
    }
    if (decoded.status == Decoded::Status::bad) {
      require(!decoded.why.empty());
      break;
    }
    require(decoded.status == Decoded::Status::whole);
    require(decoded.size > 0 && decoded.size <= rest.size());
    std::string again;
    require(encode(dialect, request, again));
    require(again == as_text(rest.first(decoded.size)));
    Request early;
    require(decode(dialect, rest.first(decoded.size - 1), limits, early).status != Decoded::Status::whole);
    rest = rest.subspan(decoded.size);
  }
}

}  // namespace
