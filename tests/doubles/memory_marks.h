// What memory of the doubles holds before it is written, and after it was freed: a use of it shows.
#pragma once

namespace doubles {

constexpr int never_written = 0xA5;
constexpr int freed = 0xDD;

}  // namespace doubles
