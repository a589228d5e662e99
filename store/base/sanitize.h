// Foreign text, made safe for a terminal: it cannot move the cursor, change colours, turn the direction of
// the line, or flood.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// Control characters and other invisible ones become blanks (a newline stays if `lines` is set, a tab
// always), escape sequences of terminals are removed, and bytes that are not UTF-8 become '?'. Of text
// redrawn with carriage returns the last state stays.
std::string sanitize_for_terminal(std::string_view text, bool lines = false);

// At most `most` bytes, cut between characters, with "..." if something is missing. REQUIRES: most >= 3.
std::string shortened(std::string text, std::size_t most);

}  // namespace dlaunch::store
