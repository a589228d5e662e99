#include "runtime/collectives/broadcast.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

namespace dlaunch::internal {

// Binomial tree: counted from the source, rank r gets the values from r without its lowest bit, and passes
// them to r + 1, r + 2, r + 4, ... below that bit, the farthest first since most ranks depend on it. (R.
// Thakur et al., 2005, section 4.2.) Long values go in segments, so that a rank passes on the first while it
// gets the second; two ranks alone need no segments.
void broadcast(Exchange& exchange, std::span<std::byte> values, int src) {
  constexpr std::size_t receives_ahead = 4;

  const unsigned size = static_cast<unsigned>(exchange.size());
  if (size == 1) return;
  const std::size_t segment_bytes =
      size > 2 ? std::size_t{1024} * 1024 : std::max<std::size_t>(1, values.size());
  const unsigned place = (static_cast<unsigned>(exchange.rank() - src) + size) % size;
  const auto rank_at = [&](unsigned p) { return static_cast<int>((p + static_cast<unsigned>(src)) % size); };
  const unsigned below = place == 0 ? std::bit_ceil(size) : place & (0U - place);  // the lowest bit

  const std::size_t segments = std::max<std::size_t>(1, (values.size() + segment_bytes - 1) / segment_bytes);
  const auto segment = [&](std::size_t k) {
    return values.subspan(k * segment_bytes, std::min(segment_bytes, values.size() - k * segment_bytes));
  };

  std::deque<Exchange::Receive> expected;
  std::vector<Exchange::Send> sent;
  std::size_t posted = 0;
  for (std::size_t k = 0; k < segments; ++k) {
    if (place != 0) {
      for (; posted < std::min(segments, k + receives_ahead); ++posted) {
        expected.push_back(exchange.receive(rank_at(place - below), segment(posted)));
      }
      expected.front().wait_in_place();
      expected.pop_front();
    }
    for (unsigned bit = below / 2; bit > 0; bit /= 2) {
      if (place + bit < size) sent.push_back(exchange.send(rank_at(place + bit), segment(k)));
    }
  }
  wait_for_all(sent);
}

}  // namespace dlaunch::internal
