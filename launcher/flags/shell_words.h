// Words as a POSIX shell writes and reads them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

// Quotes the word so that a shell reads back exactly this word. REQUIRES: no NUL byte.
std::string shell_quoted(const std::string& word);
// The same for several words, with blanks between them.
std::string quoted_line(const std::vector<std::string>& words);

// The words of a command as a user types it: blanks separate them; single and double quotes and backslashes
// protect. Nothing is expanded.
Result<std::vector<std::string>> split_words(std::string_view text);

}  // namespace dlaunch::launcher
