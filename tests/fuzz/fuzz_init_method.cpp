// The rendezvous URL, which programs take from their command lines: any text is parsed or rejected with a
// reason, and the result has the values of the URL.

#include <string>

#include "runtime/rendezvous/bootstrap.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::internal;

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

void fuzz(FuzzInput input) {
  const Result<InitMethod> method = parse_init_method(input.text());
  if (!method) {
    require(!method.error().message().empty());
    return;
  }
  const Result<InitMethod> again = parse_init_method(url_of(*method));
  require(again && again->kind == method->kind && again->path == method->path);
  require(again->address == method->address && again->given.rank == method->given.rank &&
          again->given.world_size == method->given.world_size);
  if (const Result<Identity> self = identify(method->given))
    require(self->rank >= 0 && self->rank < self->world_size);
}

}  // namespace
