#include "agent/model/call_mismatch.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "store/base/number.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

constexpr std::string_view finding = "the ranks call different operations: rank ";
constexpr std::size_t longest_call = 120;

// The number at the begin of `text`; none if it does not begin with one.
std::optional<std::uint64_t> leading_number(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  return parse_number<std::uint64_t>(text.substr(0, end));
}

std::optional<int> leading_rank(std::string_view text) {
  constexpr std::uint64_t most = 1U << 30U;
  const auto number = leading_number(text);
  return number && *number < most ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// What one rank reports: its own call and that of another rank.
struct Report {
  std::uint64_t sequence = 0;
  int self = -1;
  int other = -1;
  std::string_view own_call;
  std::string_view other_call;
  int here = -1;  // the rank that passes the report on, if it adds its own call
  std::string_view call_here{};
};

// Of "train: rank 0, all_reduce #5 of group default, peer 1 on b: the ranks call different operations: rank 1
// calls A, this rank B". If a peer "gave up" and passes that on, it is that peer's report, and "; here: C"
// follows.
std::optional<Report> report_in(std::string_view line) {
  const std::size_t found = line.find(finding);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view before = line.substr(0, found);
  const std::string_view after = line.substr(found + finding.size());
  const std::size_t number = before.find(" #");
  const std::size_t own = number == std::string_view::npos ? number : before.rfind("rank ", number);
  const std::size_t peer = before.find(", peer ");
  constexpr std::string_view calls = " calls ";
  constexpr std::string_view this_rank = ", this rank ";
  const std::size_t call = after.find(calls);
  const std::size_t own_call = after.find(this_rank);
  constexpr std::size_t none = std::string_view::npos;
  const bool is_default = before.find(" of group default") != none;
  if (!is_default || own == none || peer == none || call == none || own_call == none || own_call < call)
    return std::nullopt;
  const auto sequence = leading_number(before.substr(number + 2));
  const auto here = leading_rank(before.substr(own + 5));
  // The last peer is `other`; the one before, if there is one, has passed this on.
  const std::size_t passed_by = before.rfind("peer ", before.rfind("peer ") - 1);
  const auto self = passed_by == none ? here : leading_rank(before.substr(passed_by + 5));
  const auto other = leading_rank(after);
  if (!sequence || !here || !self || !other) return std::nullopt;
  const std::size_t begin = call + calls.size();
  Report report{*sequence, *self, *other, after.substr(own_call + this_rank.size()),
                after.substr(begin, own_call - begin)};
  constexpr std::string_view here_follows = "; here: ";
  if (const std::size_t call_here = report.own_call.find(here_follows); call_here != none) {
    report.here = *here;
    report.call_here = report.own_call.substr(call_here + here_follows.size());
    report.own_call = report.own_call.substr(0, call_here);
  }
  return report;
}

std::string words(const std::string& call, const std::set<int>& ranks, bool is_first) {
  ShortList list;
  for (const int rank : ranks) list.add(std::to_string(rank));
  const bool is_one = ranks.size() == 1;
  return std::string(is_first ? ": " : "; ") + (is_one ? "rank " : "ranks ") + list.text() +
         (is_one ? " calls " : " call ") + call;
}

}  // namespace

std::string call_mismatch_line(std::string_view output) {
  constexpr std::size_t longest = 400;
  const std::size_t found = output.rfind(finding);
  if (found == std::string_view::npos) return "";
  const std::string_view before = output.substr(0, found);
  const std::string_view line = output.substr(before.rfind('\n') + 1);
  return shortened(sanitize_for_terminal(line.substr(0, line.find('\n'))), longest);
}

const std::string& last_output_of(const Failure& failure) {
  return failure.exception.empty() ? failure.tail : failure.exception;
}

int awaited_after(const Failure& failure) {
  return call_mismatch_line(last_output_of(failure)).empty() ? failure.blamed_rank : -1;
}

std::optional<CallMismatch> find_call_mismatch(const std::vector<std::string_view>& outputs) {
  std::map<std::uint64_t, std::map<std::string, std::set<int>>> places;  // by sequence number and call
  const auto note = [&](std::uint64_t sequence, int rank, std::string_view call) {
    places[sequence][shortened(sanitize_for_terminal(call), longest_call)].insert(rank);
  };
  for (std::string_view output : outputs) {
    while (!output.empty()) {
      const std::size_t end = std::min(output.find('\n'), output.size());
      if (const auto report = report_in(output.substr(0, end))) {
        note(report->sequence, report->self, report->own_call);
        note(report->sequence, report->other, report->other_call);
        if (report->here >= 0) note(report->sequence, report->here, report->call_here);
      }
      output.remove_prefix(std::min(output.size(), end + 1));
    }
  }
  std::erase_if(places, [](const auto& place) { return place.second.size() < 2; });
  if (places.empty()) return std::nullopt;

  // The first place where they differ; the rarest call first.
  const auto& [sequence, callers] = *places.begin();
  std::vector<std::pair<std::string, std::set<int>>> calls(callers.begin(), callers.end());
  std::stable_sort(calls.begin(), calls.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  constexpr std::size_t most_calls = 4;
  const std::string place = "#" + std::to_string(sequence) + " of group default";
  CallMismatch mismatch;
  mismatch.text = "the ranks call different operations at " + place;
  for (std::size_t i = 0; i < std::min(calls.size(), most_calls); ++i)
    mismatch.text += words(calls[i].first, calls[i].second, i == 0);
  const bool differs_alone = calls.size() == 2 && calls[0].second.size() == 1 && calls[1].second.size() > 1;
  if (differs_alone) mismatch.rank = *calls[0].second.begin();
  mismatch.remedy =
      "find what makes " +
      (differs_alone ? "rank " + std::to_string(mismatch.rank) + " differ" : "the ranks differ") +
      " before " + place +
      ": a branch that depends on the rank, or data of another size (a smaller last batch)";
  return mismatch;
}

}  // namespace dlaunch::agent
