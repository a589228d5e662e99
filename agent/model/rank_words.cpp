#include "agent/model/rank_words.h"

#include <algorithm>
#include <map>

#include "store/base/sanitize.h"

namespace dlaunch::agent {

std::string describe(const std::vector<int>& ranks, std::size_t count) {
  const std::size_t shown = std::min(ranks.size(), shown_ranks);
  std::string text = count == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == count ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (count > shown) text += " and " + std::to_string(count - shown) + " more";
  return text;
}

std::vector<int> numbers(const Ranks& ranks) {
  std::vector<int> out;
  out.reserve(ranks.size());
  for (const RankProgress* rank : ranks) out.push_back(rank->rank);
  return out;
}

std::vector<int> in_condition(const Ranks& ranks, Condition condition) {
  std::vector<int> out;
  for (const RankProgress* rank : ranks) {
    if (rank->condition == condition) out.push_back(rank->rank);
  }
  return out;
}

std::string who_calls_where(const Ranks& waiting, const Ranks& absent) {
  constexpr std::size_t longest = 80;
  constexpr std::size_t most = 4;
  using Sites = std::map<std::string, std::vector<int>>;
  const auto sites_of = [](const Ranks& all) {
    Sites sites;
    for (const RankProgress* rank : all) {
      if (!rank->call_site.empty()) sites[rank->call_site].push_back(rank->rank);
    }
    return sites;
  };
  const auto words = [](const Sites& sites, const auto& who) {
    std::string text;
    std::size_t shown = 0;
    for (const auto& [site, ranks] : sites) {
      if (++shown > most) break;
      text += "; " + who(ranks) + " at " + shortened(sanitize_for_terminal(site), longest);
    }
    return text;
  };
  return words(sites_of(waiting),
               [](const std::vector<int>& ranks) {
                 return describe(ranks, ranks.size()) + (ranks.size() == 1 ? " calls it" : " call it");
               }) +
         words(sites_of(absent), [](const std::vector<int>& ranks) {
           return (ranks.size() == 1 ? "the last call of " : "the last calls of ") +
                  describe(ranks, ranks.size()) + (ranks.size() == 1 ? " was" : " were");
         });
}

std::string and_stopped(const std::vector<int>& stopped) {
  return stopped.empty()
             ? ""
             : "; " + describe(stopped, stopped.size()) + (stopped.size() == 1 ? " is" : " are") + " stopped";
}

std::string and_late_on_device(const Ranks& late) {
  if (late.empty()) return "";
  const bool is_one = late.size() == 1;
  return (is_one ? "; the GPU of " : "; the GPUs of ") + describe(numbers(late), late.size()) +
         (is_one ? " has" : " have") + " not come to it";
}

std::string who_has_ended(const Ranks& absent) {
  constexpr std::size_t longest = 64;
  std::map<std::string, std::vector<int>> ends;
  for (const RankProgress* rank : absent) {
    if (rank->condition == Condition::ended) ends[rank->how_ended].push_back(rank->rank);
  }
  std::string text;
  for (const auto& [how, ranks] : ends) {
    std::string words = shortened(sanitize_for_terminal(how), longest);
    if (words.empty()) words = ranks.size() == 1 ? "has ended" : "have ended";
    if (ranks.size() > 1 && words.starts_with("was ")) words.replace(0, 3, "were");
    text += "; " + describe(ranks, ranks.size()) + " " + words;
  }
  return text;
}

}  // namespace dlaunch::agent
