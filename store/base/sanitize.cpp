#include "store/base/sanitize.h"

#include <algorithm>
#include <iterator>

namespace dlaunch::store {
namespace {

constexpr char escape = '\x1b';
constexpr char bell = '\x07';

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The length of the character that begins `text`; 0: not UTF-8.
std::size_t character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC2 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  if (size == 1) return 1;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool no_character = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  return overlong || no_character ? 0 : size;
}

// The length of the escape sequence that begins `text`: a colour, a movement, a title.
std::size_t escape_sequence(std::string_view text) {
  if (text.size() < 2) return 1;
  if (text[1] == '[') {
    std::size_t at = 2;
    while (at < text.size() && text[at] >= ' ' && text[at] <= '?') ++at;
    return at < text.size() && text[at] >= '@' && text[at] <= '~' ? at + 1 : at;
  }
  if (text[1] == ']') {
    const std::size_t end = text.find_first_of("\x07\x1b\n", 2);
    if (end == std::string_view::npos) return text.size();
    return text[end] == bell ? end + 1 : end;
  }
  return text[1] >= ' ' && text[1] <= '~' ? 2 : 1;
}

// REQUIRES: `character` is one character in UTF-8.
char32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  char32_t code = first & (0xFFU >> (character.size() + 1));
  for (const char c : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
  return code;
}

struct Range {
  char32_t first;
  char32_t last;
};

// Invisible characters that change the rest of the line. The joiners of Indic scripts, Persian and emoji
// (U+200C, U+200D) are not among them.
constexpr Range unseen[] = {
    {0x00, 0x1F},     {0x7F, 0x9F},      // controls; terminals take the upper ones for escape sequences too
    {0xAD, 0xAD},                        // a hyphen that may not be shown
    {0x61C, 0x61C},   {0x200E, 0x200F},  // marks, embeddings, overrides and isolates of the direction of text
    {0x202A, 0x202E}, {0x2066, 0x206F},   {0x200B, 0x200B}, {0x2060, 0x2065},  // without a width
    {0xFEFF, 0xFEFF}, {0x2028, 0x2029},                                        // ends of lines and paragraphs
    {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},                                      // annotations, tags
};

bool is_unseen(std::string_view character) {
  const char32_t code = code_point(character);
  return std::any_of(std::begin(unseen), std::end(unseen),
                     [&](Range range) { return code >= range.first && code <= range.last; });
}

}  // namespace

std::string sanitize_for_terminal(std::string_view text, bool lines) {
  std::string out;
  std::size_t line_begins = 0;  // in `out`
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest[0] == escape) {
      at += escape_sequence(rest);
      continue;
    }
    const std::size_t size = character(rest);
    if (size == 0) {
      out += '?';
      ++at;
      continue;
    }
    at += size;
    if (rest[0] == '\r') {
      const bool redrawn = rest.size() > 1 && rest[1] != '\n' && rest[1] != '\r';
      if (redrawn) out.resize(line_begins);
    } else if (rest[0] == '\t') {
      out += '\t';
    } else if (rest[0] == '\n' && lines) {
      out += '\n';
      line_begins = out.size();
    } else if (is_unseen(rest.substr(0, size))) {
      out += ' ';
    } else {
      out += rest.substr(0, size);
    }
  }
  return out;
}

std::string shortened(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most - 3;
  while (end > 0 && is_continuation(text[end])) --end;
  text.resize(end);
  return text + "...";
}

}  // namespace dlaunch::store
