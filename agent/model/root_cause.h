// Finds which of several failures of one round caused the others. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

struct TimedFailure {
  TimePoint when;  // by the clock of the process that compares
  Failure failure;
};

// Failures this close to the first count as simultaneous: the delays until a process's end is noticed,
// reported and read differ.
inline constexpr Duration one_moment = std::chrono::milliseconds(100);

// How long a blamed worker, whose failure others noticed first, may still run before it is signalled.
inline constexpr Duration blamed_rank_grace = std::chrono::milliseconds(500);

// A worker's page (Failure::blamed_rank) or its last output blames another rank: a closed connection, NCCL,
// Gloo. Searches its long texts; Failure::blames_peer keeps the answer when these are dropped.
bool output_blames_peer(const Failure& failure);

// Reported as a failure, but not one: this worker was ended by the stop. It may still be the cause if all
// failed workers blame a peer: it had already written a line that looks like an error (`exception`: that
// line), left its groups during an exception, or returned 0 while others needed it (`exception`: its last
// line).
inline bool is_suspect(const Failure& failure) { return failure.while_stopping && failure.ended_by_us; }

// From the last output of a worker before it was stopped, the line that shows an error of its own: it names
// an error and blames no peer. Empty: there is none.
std::string own_error_in(const std::string& last_words);

// describe(); of a worker whose exit nothing else explains, with the line of its last output that shows an
// error of its own: "rank 1 (...) exited with code 1: KeyError: 'tokenizer'".
std::string describe_with_error(const Failure& failure);

// The last line, sanitized for a message; empty: there is none.
std::string last_line_in(const std::string& last_words);

// If all of `failures` blame a peer, adds to the cause's hint what suspects (is_suspect()) had written.
void name_suspects(const std::vector<TimedFailure>& failures, std::vector<Failure> suspects, Failure& cause);

// The index of the root cause in `failures`: the first in time that did not fail while being stopped; of
// simultaneous ones a lost node precedes the workers that its loss broke. A failure that blames a peer is the
// cause only if no such peer is found: among the simultaneous ones, or among workers killed by a signal and
// nodes lost later. (A process's connections are closed before its end is reported; with a GPU that may take
// seconds, and then its victims are reported first.) If the rank that the first failure blames is known,
// failed at any time, and blames no other rank, it is the cause. REQUIRES: `failures` is not empty.
std::size_t root_cause(const std::vector<TimedFailure>& failures);

// If the root cause blames a rank that has not failed: a failure of kind `left` that names that rank and
// replaces the cause. `suspects` may have its last output; `ended` is how it ended ("returned 0"), empty if
// that is not known. The caller fills in where it ran. None: the cause stays.
std::optional<Failure> blamed_peer(const std::vector<TimedFailure>& failures, std::size_t cause,
                                   const std::vector<Failure>& suspects, const std::string& ended);

// Fills in the report of a round's end: the cause is failures[cause], the others follow in time, and all are
// counted.
void summarize_failures(std::vector<TimedFailure> failures, std::size_t cause, Outcome& outcome);

}  // namespace dlaunch::agent
