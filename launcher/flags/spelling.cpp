#include "launcher/flags/spelling.h"

#include <algorithm>
#include <iterator>

namespace dlaunch::launcher {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view typed, const std::vector<std::string>& words) {
  std::string best;
  std::size_t least = std::string_view::npos;
  for (const std::string& word : words) {
    const std::size_t far = distance(typed, word);
    if (far < least && far <= std::max<std::size_t>(1, word.size() / 3)) {
      least = far;
      best = word;
    }
  }
  return best;
}

std::vector<std::string> likely(std::string_view typed, const std::vector<std::string>& words) {
  constexpr std::size_t distinctive = 4;  // letters; fewer match too many words
  if (std::string near = nearest(typed, words); !near.empty()) return {std::move(near)};
  std::vector<std::string> out;
  const auto take = [&](auto fits) {
    if (out.empty()) std::copy_if(words.begin(), words.end(), std::back_inserter(out), fits);
  };
  const std::string end = "-" + std::string(typed);
  if (typed.size() >= distinctive) take([&](const std::string& word) { return word.ends_with(end); });
  if (typed.size() >= distinctive) take([&](const std::string& word) { return word.starts_with(typed); });
  if (typed.size() > distinctive)
    take([&](const std::string& word) { return word.starts_with(typed.substr(0, typed.size() - 1)); });
  return out;
}

}  // namespace dlaunch::launcher
