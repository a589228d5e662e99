// libFuzzer: the messages between agents, in pieces. The first byte selects the listening side, the second
// the length of the pieces.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "agent/control/messages.h"
#include "agent/model/diagnosis.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlaunch::agent;
  if (size < 2) return 0;
  FrameReader reader = data[0] % 2 == 0 ? FrameReader::from_member() : FrameReader::from_coordinator();
  const std::size_t piece = std::size_t{1} + data[1];
  ByteSpan rest(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  // Most inputs would fail at the greeting, and test nothing more.
  if (data[0] % 2 == 0) reader.append(as_byte_span(greeting));
  while (!rest.empty()) {
    const ByteSpan now = rest.first(std::min(piece, rest.size()));
    rest = rest.subspan(now.size());
    reader.append(now);
    while (true) {
      auto message = reader.next();
      if (!message) {
        require(!message.error().message().empty());
        return 0;
      }
      if (!*message) break;
      // A decoded message must encode to the same bytes.
      const auto again = decode(as_byte_span(encode(**message)).subspan(sizeof(std::uint32_t)));
      require(again.ok() && *again == **message);
      // Formats the positions of the ranks as sentences.
      if (const auto* progress = std::get_if<Progress>(&**message))
        require(diagnose(progress->groups).sentences.size() <= Diagnosis::max_sentences);
    }
  }
  return 0;
}
