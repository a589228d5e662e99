#include "launcher/flags/shell_words.h"

#include <algorithm>
#include <cctype>

namespace dlaunch::launcher {

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view plain = "@%+=:,./-_";
  const bool safe = !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || plain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (safe) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string quoted_line(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : " ").append(shell_quoted(word));
  return out;
}

Result<std::vector<std::string>> split_words(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto is_protected = [](char c) {
    return std::string_view("\"\\$`").find(c) != std::string_view::npos;
  };
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\0' && blanks.find(c) != std::string_view::npos) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool has_next = i + 1 < text.size();
    if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != '\0' && c == quote) {
      quote = '\0';
    } else if (c == '\\' && has_next && (quote == '\0' || (quote == '"' && is_protected(text[i + 1])))) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0') {
    return Error{ErrorKind::invalid, "'" + std::string(text) + "'", "",
                 std::string("a ") + quote + " is not closed", ""};
  }
  return words;
}

}  // namespace dlaunch::launcher
