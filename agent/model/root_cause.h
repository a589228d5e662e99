// Which of several failures of one round pulled the others down. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

struct TimedFailure {
  TimePoint when;  // by the clock of whoever compares
  Failure failure;
};

// Failures this close to the first are taken for simultaneous: a process's death is noticed, reported and
// read with delays of its own.
inline constexpr Duration one_moment = std::chrono::milliseconds(100);

// How long a worker whose end others were the first to notice may still run before it is signalled.
inline constexpr Duration blamed_rank_grace = std::chrono::milliseconds(500);

// Whether a worker's page (Failure::accused) or its last words accuse another: a connection that was closed,
// NCCL, Gloo. Looks at its long texts; Failure::blames_peer keeps the answer where these are dropped.
bool output_blames_peer(const Failure& failure);

// Not a failure, though it is told like one: this worker only obeyed the stop, but what it had written until
// then looks like an error (`exception`: the line), and may be the cause where all that failed accuse a peer;
// or it had left its groups while an exception was on its way, or returned 0 while others needed it
// (`exception`: its last line).
inline bool is_suspect(const Failure& failure) { return failure.while_stopping && failure.ended_by_us; }

// The line by which a worker's last words, before it was stopped, say that it had an error of its own: one
// that names an error, and accuses nobody. Empty: there is none.
std::string own_error_in(const std::string& last_words);

// The last line, fit for a message; empty: there is none.
std::string last_line_in(const std::string& last_words);

// Where all of `fallen` accuse a peer, the cause's hint says what suspects (is_suspect()) had written.
void name_suspects(const std::vector<TimedFailure>& failures, std::vector<Failure> suspects, Failure& cause);

// The root cause's place in `fallen`: the first in time of those that did not fall while being stopped; of
// simultaneous ones a node that is lost goes before what its loss did to others' workers. But who accuses a
// peer is it only where no such peer is found: among the simultaneous ones, or among those that a signal
// killed and nodes that were lost later. (A process's connections are closed before its end is reported; with
// a GPU that may take seconds, and then its victims are heard of first.) If it is known whom the first
// accuses, and that one fell too and accuses nobody, whenever that was, that one is it. REQUIRES: `fallen` is
// not empty.
std::size_t root_cause(const std::vector<TimedFailure>& failures);

// If the root cause accuses a rank that has not fallen: the failure of kind `left` that names that rank,
// which stands for the cause. `suspects` may hold its last words; `ended` says how it ended ("returned 0"),
// empty if that is not known. Where it ran is for the caller to fill in. None: the cause is the cause.
std::optional<Failure> blamed_peer(const std::vector<TimedFailure>& failures, std::size_t cause,
                                   const std::vector<Failure>& suspects, const std::string& ended);

// What is told of a round's end: the cause is fallen[cause], the others follow in time, and all are counted.
void summarize_failures(std::vector<TimedFailure> failures, std::size_t cause, Outcome& outcome);

}  // namespace dlaunch::agent
