#include "agent/model/root_cause.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>

#include "agent/model/remedy.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

// Texts by which PyTorch, NCCL, Gloo, libdlaunch and the system report that a peer has ended.
constexpr std::array<std::string_view, 16> accusations{"connection reset",
                                                       "connection closed",
                                                       "connection was closed",
                                                       "closed by peer",
                                                       "broken pipe",
                                                       "connection refused",
                                                       "distnetworkerror",
                                                       "distbackenderror",
                                                       "ncclremoteerror",
                                                       "nccl error",
                                                       "remote process exited",
                                                       "remote process has terminated",
                                                       "has left the group",
                                                       "it died, or the connection to it was lost",
                                                       "watchdog caught collective",
                                                       "ranks call different operations"};

// Words by which programs report their errors.
constexpr std::array<std::string_view, 18> own_errors{"error",
                                                      "exception",
                                                      "fatal",
                                                      "panic",
                                                      "assert",
                                                      "abort",
                                                      "fail",
                                                      "segmentation fault",
                                                      "out of memory",
                                                      "no such file",
                                                      "cannot ",
                                                      "can't ",
                                                      "could not ",
                                                      "unable to ",
                                                      "bad_alloc",
                                                      "no space left",
                                                      "permission denied",
                                                      "unknown "};

// The last line of a failing program names its error; the lines above may be anything.
std::string_view last_lines(std::string_view text, int count) {
  for (std::size_t at = text.size(); at > 0; --at) {
    if (text[at - 1] == '\n' && --count == 0) return text.substr(at);
  }
  return text;
}

// Signals that dlaunch itself sent are not reported as failures.
bool died_of_a_signal(const Failure& failure) {
  return failure.kind == FailureKind::worker && !failure.ended_by_us &&
         failure.status.how == ExitStatus::How::signaled;
}

// nullptr: none is `wanted`.
template <class F>
const TimedFailure* earliest(const std::vector<TimedFailure>& failures, F&& wanted) {
  const TimedFailure* found = nullptr;
  for (const TimedFailure& f : failures) {
    if (wanted(f) && (!found || f.when < found->when)) found = &f;
  }
  return found;
}

std::vector<Tally> tallied(const std::vector<TimedFailure>& failures, std::size_t cause) {
  std::map<std::string, int> counts;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (i != cause) ++counts[describe_end(brief(failures[i].failure))];
  }
  std::vector<Tally> tallies;
  tallies.reserve(counts.size());
  for (const auto& [what, count] : counts) tallies.push_back({what, count});
  std::stable_sort(tallies.begin(), tallies.end(),
                   [](const Tally& a, const Tally& b) { return a.count > b.count; });
  if (tallies.size() > static_cast<std::size_t>(Outcome::max_tallies)) tallies.resize(Outcome::max_tallies);
  return tallies;
}

bool says_one_of(const std::string& words, std::span<const std::string_view> texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](std::string_view text) { return words.find(text) != std::string::npos; });
}

const TimedFailure* fallen_rank(const std::vector<TimedFailure>& failures, int rank) {
  const auto found = std::find_if(failures.begin(), failures.end(), [&](const TimedFailure& f) {
    return f.failure.kind == FailureKind::worker && f.failure.rank == rank;
  });
  return found == failures.end() ? nullptr : &*found;
}

// Follows the blamed ranks from this failure to one that blames no other rank. nullptr: there is none.
const TimedFailure* accused_at_last(const std::vector<TimedFailure>& failures, const TimedFailure& first) {
  const TimedFailure* at = &first;
  // A longer chain is a circle.
  for (std::size_t steps = 0; steps < failures.size() && at != nullptr; ++steps) {
    if (!at->failure.blames_peer) return at == &first ? nullptr : at;
    at = fallen_rank(failures, at->failure.blamed_rank);
  }
  return nullptr;
}

}  // namespace

bool output_blames_peer(const Failure& failure) {
  constexpr int looked_at = 3;
  if (failure.kind != FailureKind::worker) return false;
  if (failure.blamed_rank >= 0) return true;
  return says_one_of(
      lower(failure.exception.empty() ? last_lines(failure.tail, looked_at) : failure.exception),
      accusations);
}

std::string last_line_in(const std::string& last_words) {
  constexpr std::size_t longest = 200;
  return shortened(sanitize_for_terminal(last_lines(last_words, 1)), longest);
}

std::string own_error_in(const std::string& last_words) {
  std::string line = last_line_in(last_words);
  const bool is_warning = lower(line).find("warning") != std::string::npos;
  if (is_warning || !says_one_of(lower(line), own_errors) || says_one_of(lower(last_words), accusations))
    return "";
  return line;
}

std::string describe_with_error(const Failure& failure) {
  const bool explained = !failure.exception.empty() || !failure.hint.empty() || failure.ended_by_us;
  const bool has_exited = failure.status.how == ExitStatus::How::exited;
  if (failure.kind != FailureKind::worker || explained || !has_exited) return describe(failure);
  const std::string error = own_error_in(failure.tail);
  return describe(failure) + (error.empty() ? "" : ": " + error);
}

void name_suspects(const std::vector<TimedFailure>& failures, std::vector<Failure> suspects, Failure& cause) {
  constexpr std::size_t most_named = 2;
  if (cause.kind == FailureKind::left) return;  // it is named already
  const bool all_accuse = std::all_of(failures.begin(), failures.end(),
                                      [](const TimedFailure& f) { return f.failure.blames_peer; });
  if (!all_accuse) return;
  std::erase_if(suspects, [](const Failure& suspect) { return suspect.exception.empty(); });
  std::sort(suspects.begin(), suspects.end(),
            [](const Failure& a, const Failure& b) { return a.rank < b.rank; });
  for (std::size_t i = 0; i < std::min(suspects.size(), most_named); ++i) {
    const Failure& suspect = suspects[i];
    cause.hint += (cause.hint.empty() ? "rank " : "; rank ") + std::to_string(suspect.rank) +
                  (suspect.host == cause.host ? "" : " on host " + suspect.host) +
                  ", which was then stopped, had written: " + suspect.exception;
  }
  if (suspects.size() > most_named)
    cause.hint += "; so had " + std::to_string(suspects.size() - most_named) + " more";
}

std::size_t root_cause(const std::vector<TimedFailure>& failures) {
  const bool any_by_itself = std::any_of(failures.begin(), failures.end(),
                                         [](const TimedFailure& f) { return !f.failure.while_stopping; });
  const auto by_itself = [&](const TimedFailure& f) { return !any_by_itself || !f.failure.while_stopping; };
  const TimedFailure* first = earliest(failures, by_itself);
  const auto simultaneous = [&](const TimedFailure& f) { return f.when - first->when <= one_moment; };
  const auto accuses = [](const TimedFailure& f) { return f.failure.blames_peer; };

  const auto lost = [](const TimedFailure& f) { return f.failure.kind == FailureKind::node_lost; };

  const TimedFailure* root =
      earliest(failures, [&](const TimedFailure& f) { return simultaneous(f) && lost(f); });
  if (!root) root = accused_at_last(failures, *first);
  if (!root)
    root = earliest(failures,
                    [&](const TimedFailure& f) { return by_itself(f) && simultaneous(f) && !accuses(f); });
  if (!root) {
    root = earliest(failures, [&](const TimedFailure& f) {
      return !accuses(f) && (simultaneous(f) || died_of_a_signal(f.failure) || lost(f));
    });
  }
  return static_cast<std::size_t>((root ? root : first) - failures.data());
}

std::optional<Failure> blamed_peer(const std::vector<TimedFailure>& failures, std::size_t cause,
                                   const std::vector<Failure>& suspects, const std::string& ended) {
  const Failure& victim = failures[cause].failure;
  const bool accuses = victim.kind == FailureKind::worker && victim.blamed_rank >= 0;
  if (!accuses || fallen_rank(failures, victim.blamed_rank) != nullptr) return std::nullopt;
  Failure failure;
  failure.kind = FailureKind::left;
  failure.round = victim.round;
  failure.rank = victim.blamed_rank;
  failure.status = victim.status;
  failure.unix_ms = victim.unix_ms;
  failure.why = victim.blamed_for;
  const auto suspect = std::find_if(suspects.begin(), suspects.end(),
                                    [&](const Failure& one) { return one.rank == victim.blamed_rank; });
  const bool returned = suspect != suspects.end() && suspect->status.success();
  const bool has_thrown = failure.why.find("exception") != std::string::npos;
  if (!has_thrown && (returned || ended == describe_briefly({}))) failure.remedy = remedy_of_early_return();
  if (returned || !ended.empty()) failure.why += " and " + (returned ? describe_briefly({}) : ended);
  if (suspect != suspects.end()) {
    failure.pid = suspect->pid;
    if (!suspect->exception.empty()) failure.why += " (its last line: " + suspect->exception + ")";
  }
  failure.why += "; rank " + std::to_string(victim.rank) + " noticed it";
  return failure;
}

void summarize_failures(std::vector<TimedFailure> failures, std::size_t cause, Outcome& outcome) {
  outcome.failure_count = static_cast<int>(failures.size());
  outcome.tallies = tallied(failures, cause);
  const TimePoint since = failures[cause].when;
  outcome.cause = std::move(failures[cause].failure);
  outcome.exit_code = exit_code_of(outcome.cause);
  outcome.failed = true;
  failures.erase(failures.begin() + static_cast<std::ptrdiff_t>(cause));
  std::stable_sort(failures.begin(), failures.end(),
                   [](const TimedFailure& a, const TimedFailure& b) { return a.when < b.when; });
  if (failures.size() > static_cast<std::size_t>(Outcome::max_others)) failures.resize(Outcome::max_others);
  outcome.others.clear();
  for (TimedFailure& f : failures) {
    outcome.others.push_back(brief(std::move(f.failure)));
    outcome.others.back().after = f.when - since;
  }
}

}  // namespace dlaunch::agent
