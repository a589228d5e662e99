// Words as a POSIX shell writes and reads them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

// Such that a shell reads back exactly this word, whatever is in it. REQUIRES: no NUL byte.
std::string shell_quoted(const std::string& word);
// Several, with blanks between them.
std::string quoted_line(const std::vector<std::string>& words);

// The words of a command as a person types it: blanks separate, single and double quotes and backslashes
// protect. Nothing is expanded.
Result<std::vector<std::string>> split_words(std::string_view text);

}  // namespace dlaunch::launcher
