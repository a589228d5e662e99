// Pure helpers for workers' output: whole lines out of pieces, and the last lines of a stream.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// Cuts a stream into blocks of whole lines, so that two streams written to one place never mix within a line.
// A carriage return ends a line, too: progress bars redraw with it.
class LineSplitter {
 public:
  // A line of this length is broken.
  static constexpr std::size_t longest_line = 1U << 20;

  // Calls emit(beginning, rest) with what is now complete: two parts of one text.
  template <class Emit>
  void cut(std::string_view piece, Emit&& emit) {
    const std::size_t end = piece.find_last_of("\n\r");
    if (end == std::string_view::npos) {
      partial_.append(piece);
    } else {
      emit(std::string_view(partial_), piece.substr(0, end + 1));
      partial_.assign(piece.substr(end + 1));
    }
    if (partial_.size() < longest_line) return;
    const std::size_t whole = whole_characters(partial_);
    emit(std::string_view(partial_).substr(0, whole), std::string_view("\n"));
    partial_.erase(0, whole);
  }

  // The stream has ended: the rest becomes a line.
  template <class Emit>
  void finish(Emit&& emit) {
    if (partial_.empty()) return;
    emit(std::string_view(partial_), std::string_view("\n"));
    partial_.clear();
  }

 private:
  // The text's length without a UTF-8 character that is cut at its end.
  static std::size_t whole_characters(std::string_view text) {
    for (std::size_t back = 1; back <= 4 && back < text.size(); ++back) {
      const auto byte = static_cast<unsigned char>(text[text.size() - back]);
      if (byte < 0x80) break;  // ASCII: nothing is cut
      if (byte < 0xC0) continue;
      const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      return length > back ? text.size() - back : text.size();
    }
    return text.size();
  }

  std::string partial_;
};

// The last lines of a stream, in bounded memory.
class Tail {
 public:
  static constexpr std::size_t most_bytes = 16U * 1024;
  static constexpr int most_lines = 20;

  void add(std::string_view piece) {
    kept_.append(piece);
    if (kept_.size() > 2 * most_bytes) kept_.erase(0, kept_.size() - most_bytes);
  }

  // At most so many lines and bytes, without the last line's end.
  [[nodiscard]] std::string text(int lines = most_lines, std::size_t bytes = most_bytes) const {
    std::string_view rest = kept_;
    while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r')) rest.remove_suffix(1);
    if (rest.size() > bytes) rest.remove_prefix(rest.size() - bytes);
    for (std::size_t at = rest.size(); at > 0; --at) {
      if (rest[at - 1] == '\n' && --lines == 0) {
        rest.remove_prefix(at);
        break;
      }
    }
    return std::string(rest);
  }

 private:
  std::string kept_;
};

}  // namespace dlaunch::store
