// Parsers of values; their errors explain what is allowed. `name`: where the value came from, as the user
// finds it: "--nnodes", "PET_NNODES", "nnodes in job.json". Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"
#include "store/base/text.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// A mistake of the user: the exit code is 2.
Error usage(std::string what, std::string why = "", std::string hint = "see dlaunch --help");

Error mistake(std::string what, std::string hint);

Result<int> number(const std::string& name, const std::string& text, int least, int most);
constexpr std::chrono::seconds longest_time = std::chrono::hours(7 * 24);
Result<Duration> seconds(const std::string& name, const std::string& text);
// Above 0.
Result<Duration> positive_seconds(const std::string& name, const std::string& text,
                                  std::chrono::seconds most = longest_time);
// One of `choices`; the error lists them.
Result<std::string> choice(const std::string& name, const std::string& text,
                           const std::vector<std::string>& choices);
// 1, true, yes, on; 0, false, no, off; in upper or lower case.
std::optional<bool> switch_word(std::string_view text);

// "a,b" -> a, b; empty text has no parts. With `doubled_is_literal`, ",," stands for a comma in a part.
std::vector<std::string> comma_list(std::string_view text, bool doubled_is_literal = false);

// As number(), with 64 bits.
Result<std::int64_t> whole_number(const std::string& name, const std::string& text, std::int64_t least,
                                  std::int64_t most);
// "1073741824", "64K", "512m", "1.5GiB": with K, M, G and T of 1024, in any case; at least 1.
Result<std::uint64_t> byte_size(const std::string& name, const std::string& text);

}  // namespace dlaunch::launcher
