// The rendezvous URL, which programs take from their command lines: any text is parsed or rejected with a
// reason, and the result has the values of the URL.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/rendezvous/bootstrap.h"

namespace {

using namespace dlaunch::internal;

void check(bool holds) {
  if (!holds) std::abort();
}

std::string parameters(const GivenRank& given) {
  std::string text;
  if (given.rank) text += "rank=" + std::to_string(*given.rank);
  if (given.world_size)
    text += (text.empty() ? "" : "&") + ("world_size=" + std::to_string(*given.world_size));
  return text.empty() ? text : "?" + text;
}

// The URL of the parsed values.
std::string url_of(const InitMethod& method) {
  switch (method.kind) {
    case InitMethod::Kind::env:
      return "env://" + parameters(method.given);
    case InitMethod::Kind::tcp:
      return "tcp://" + to_string(method.address) + parameters(method.given);
    case InitMethod::Kind::file:
      return "file://" + method.path + parameters(method.given);
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<InitMethod> method = parse_init_method(text);
  if (!method) {
    check(!method.error().message().empty());
    return 0;
  }
  const Result<InitMethod> again = parse_init_method(url_of(*method));
  check(again && again->kind == method->kind && again->path == method->path);
  check(again->address == method->address && again->given.rank == method->given.rank &&
        again->given.world_size == method->given.world_size);
  if (const Result<Identity> self = identify(method->given))
    check(self->rank >= 0 && self->rank < self->world_size);
  return 0;
}
