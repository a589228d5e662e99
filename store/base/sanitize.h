// Text that others wrote, made fit for a person's terminal: it cannot move the cursor, change colours, turn
// the direction of the line or flood.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// Control characters and others that nobody sees become blanks (a newline stays where `lines` is set, a tab
// always), escape sequences of terminals vanish, bytes that are no UTF-8 become '?'. Of what was redrawn with
// carriage returns the last state stays.
std::string sanitize_for_terminal(std::string_view text, bool lines = false);

// At most `most` bytes, cut between characters, with "..." where something is missing. REQUIRES: most >= 3.
std::string shortened(std::string text, std::size_t most);

}  // namespace dlaunch::agent
