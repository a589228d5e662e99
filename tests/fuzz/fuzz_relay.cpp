// libFuzzer: bytes of a relay, or of the dlaunch that started one, in any pieces. What is understood is
// within its bounds, and means the same when it is sent again.

#include <algorithm>
#include <csignal>
#include <string>
#include <variant>

#include "launcher/remote/relay_protocol.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::launcher;

void check(const RelayMessage& message) {
  if (const auto* run = std::get_if<RunProcess>(&message)) require(!run->command.empty());
  if (const auto* one = std::get_if<SignalProcess>(&message)) require(one->signo > 0 && one->signo < NSIG);
  if (const auto* output = std::get_if<ProcessOutput>(&message))
    require(output->bytes.size() <= most_relayed);
  RelayReader again;
  again.append(encode(message));
  auto same = again.next();
  require(same && *same && **same == message);
  same = again.next();
  require(same && !*same);
}

void fuzz(FuzzInput input) {
  const std::size_t piece = 1 + input.choice() % 16;
  const std::string bytes(input.text());
  const auto greeting = find_relay_greeting(bytes, "k12");
  require(greeting.end <= bytes.size());
  RelayReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.append(std::string_view(bytes).substr(at, piece));
    for (;;) {
      const auto message = reader.next();
      if (!message) return require(!message.error().message().empty());
      if (!*message) break;
      check(**message);
    }
  }
}

}  // namespace
