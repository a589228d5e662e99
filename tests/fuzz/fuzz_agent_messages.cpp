// libFuzzer: the messages between agents, in pieces. The first byte selects the listening side, the second
// the length of the pieces.
#include <algorithm>
#include <cstdint>

#include "agent/control/messages.h"
#include "agent/model/diagnosis.h"
#include "agent/model/stragglers.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

// As if two nodes had reported it.
void compare(const dlaunch::agent::Arrivals& arrivals) {
  using namespace dlaunch::agent;
  constexpr Duration window = std::chrono::seconds(60);
  Stragglers stragglers(window);
  stragglers.begin_round(TimePoint{}, 8);
  for (int node = 0; node < 2; ++node) stragglers.add(TimePoint{window}, arrivals);
  const auto worst = stragglers.worst(TimePoint{window});
  require(!worst || (worst->late >= Duration(0) && worst->late <= window));
  require(stragglers.ranks().size() <= 8);
}

void fuzz(FuzzInput input) {
  using namespace dlaunch::agent;
  const bool from_member = input.choice() % 2 == 0;
  FrameReader reader = from_member ? FrameReader::from_member() : FrameReader::from_coordinator();
  const std::size_t piece = std::size_t{1} + input.choice();
  ByteSpan rest = input.bytes();
  // Most inputs would fail at the greeting, and test nothing more.
  if (from_member) reader.append(as_byte_span(greeting));
  while (!rest.empty()) {
    const ByteSpan now = rest.first(std::min(piece, rest.size()));
    rest = rest.subspan(now.size());
    reader.append(now);
    while (true) {
      auto message = reader.next();
      if (!message) {
        require(!message.error().message().empty());
        return;
      }
      if (!*message) break;
      // A decoded message must encode to the same bytes.
      const auto again = decode(as_byte_span(encode(**message)).subspan(sizeof(std::uint32_t)));
      require(again.ok() && *again == **message);
      // Formats the positions of the ranks as sentences.
      if (const auto* progress = std::get_if<Progress>(&**message))
        require(diagnose(progress->groups).sentences.size() <= Diagnosis::max_sentences);
      if (const auto* report = std::get_if<ArrivalsReport>(&**message)) compare(report->arrivals);
    }
  }
}

}  // namespace
