// How the fields of messages become bytes and bytes become fields. FieldWriter and FieldReader take the same
// calls, so that one list of fields serves both directions. Pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "agent/control/messages.h"
#include "agent/model/diagnosis.h"
#include "store/base/bytes.h"

namespace dlaunch::agent {

class FieldWriter {
 public:
  explicit FieldWriter(std::string& out) : out_(out) {}

  // Writes the values in this order. A struct is written by its fields().
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  // An enumeration whose last value is `last`.
  template <class E>
  void choice(const E& value, E) {
    out_.u8(static_cast<std::uint8_t>(value));
  }
  template <class T>
  void list(const std::vector<T>& items, std::uint32_t) {
    out_.u32(static_cast<std::uint32_t>(items.size()));
    for (const T& item : items) put(item);
  }

 private:
  void put(const int& value) { out_.i64(value); }
  void put(const std::int64_t& value) { out_.i64(value); }
  void put(const std::uint64_t& value) { out_.integer(value); }
  void put(const std::uint32_t& value) { out_.u32(value); }
  void put(const std::uint16_t& value) { out_.integer(value); }
  void put(const bool& value) { out_.u8(value ? 1 : 0); }
  void put(const double& value) { out_.integer(std::bit_cast<std::uint64_t>(value)); }
  void put(const Duration& value) { out_.i64(value.count()); }
  void put(const std::string& value) { out_.text(std::string_view(value).substr(0, max_text)); }
  template <class T>
  void put(const T& value) {
    fields(*this, value);
  }

  ByteWriter out_;
};

class FieldReader {
 public:
  explicit FieldReader(ByteSpan body) : in_(body) {}

  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }
  template <class E>
  void choice(E& value, E last) {
    const std::uint8_t raw = in_.u8();
    value = static_cast<E>(raw);
    if (raw > static_cast<std::uint8_t>(last)) {
      bad_ = true;
      value = last;
    }
  }
  // At most `limit` items.
  template <class T>
  void list(std::vector<T>& items, std::uint32_t limit) {
    const std::uint32_t count = in_.u32();
    // Every item takes at least one byte, so an announced count cannot make us allocate more than was sent.
    if (count > limit || count > in_.left()) {
      bad_ = true;
      return;
    }
    for (std::uint32_t i = 0; i < count && good(); ++i) take(items.emplace_back());
  }

  std::uint8_t kind() { return in_.u8(); }
  // All bytes have been read, and each was valid.
  [[nodiscard]] bool done() const { return in_.done() && !bad_; }

 private:
  void take(int& value) {
    const std::int64_t wide = in_.i64();
    value = static_cast<int>(wide);
    if (value != wide) bad_ = true;
  }
  void take(std::int64_t& value) { value = in_.i64(); }
  void take(std::uint64_t& value) { value = in_.integer<std::uint64_t>(); }
  void take(std::uint32_t& value) { value = in_.u32(); }
  void take(std::uint16_t& value) { value = in_.integer<std::uint16_t>(); }
  void take(bool& value) {
    const std::uint8_t raw = in_.u8();
    value = raw != 0;
    if (raw > 1) bad_ = true;
  }
  void take(std::string& value) { value = std::string(in_.text(max_text)); }
  void take(double& value) {
    value = std::bit_cast<double>(in_.integer<std::uint64_t>());
    if (!std::isfinite(value)) bad_ = true;
  }
  void take(Duration& value) { value = Duration(in_.i64()); }
  template <class T>
  void take(T& value) {
    fields(*this, value);
  }
  [[nodiscard]] bool good() const { return in_.ok() && !bad_; }

  ByteReader in_;
  bool bad_ = false;
};

// --- the values inside the messages ---

void fields(auto& io, Of<ExitStatus> auto& s) {
  io.choice(s.how, ExitStatus::How::signaled);
  io(s.number, s.core_dumped);
}

void fields(auto& io, Of<Grant> auto& g) { io(g.echo, g.lease); }

void fields(auto& io, Of<Failure> auto& f) {
  io.choice(f.kind, FailureKind::left);
  io(f.round, f.node_rank, f.host, f.rank, f.local_rank, f.pid, f.status, f.why, f.tail, f.tail_is_of_stdout,
     f.exception, f.traceback, f.hint, f.remedy, f.log_file, f.unix_ms, f.blames_peer, f.blamed_rank,
     f.blamed_for, f.while_stopping, f.ended_by_us, f.after, f.unnoticed);
}

void fields(auto& io, Of<Restart> auto& r) { io(r.number, r.after, r.cause, r.lasted, r.counted); }

void fields(auto& io, Of<std::vector<Restart>> auto& restarts) { io.list(restarts, Outcome::max_restarts); }

void fields(auto& io, Of<Address> auto& a) { io(a.host, a.port); }

void fields(auto& io, Of<PmiEntry> auto& e) { io(e.key, e.value); }

void fields(auto& io, Of<NodeBlock> auto& b) { io(b.nodes, b.slots); }

void fields(auto& io, Of<WorldMember> auto& m) {
  io(m.node_rank, m.slots, m.base_rank, m.host, m.agent, m.sticky_rank, m.role_base, m.role_world_size);
}

void fields(auto& io, Of<World> auto& w) {
  io(w.leader, w.round, w.world_size, w.nodes, w.restarts_used, w.store, w.age, w.restarts);
  io.list(w.members, static_cast<std::uint32_t>(max_nodes));
  io(w.fencing);
  io.list(w.blocks, static_cast<std::uint32_t>(max_node_blocks));
}

void fields(auto& io, Of<Tally> auto& t) { io(t.what, t.count); }

void fields(auto& io, Of<TimeSums> auto& t) {
  io(t.ranks, t.wall);
  for (auto& part : t.parts) io(part);
}

void fields(auto& io, Of<Outcome> auto& o) {
  io(o.exit_code, o.restarts_used, o.failed, o.cause, o.no_restart);
  io.list(o.rank_positions, Outcome::max_sentences);
  io.list(o.others, Outcome::max_others);
  io(o.failure_count);
  io.list(o.tallies, Outcome::max_tallies);
  io(o.restarts, o.times);
}

void fields(auto& io, Of<page::Run> auto& run) { io(run.first, run.stride, run.count); }

void fields(auto& io, Of<StalledLink> auto& l) { io(l.peer, l.is_full, l.retransmissions, l.silent); }

void fields(auto& io, Of<RankProgress> auto& r) {
  io(r.rank, r.entered, r.done, r.inside, r.left);
  io.choice(r.condition, Condition::ended);
  io.choice(r.operation, page::last_operation);
  io.choice(r.on_device, page::Record::begun);
  io.choice(r.before, page::last_operation);
  io(r.peer, r.needs_all, r.waited, r.call_site, r.how_ended, r.pid, r.state, r.stack, r.link);
}

void fields(auto& io, Of<GroupProgress> auto& g) {
  io(g.identity, g.name, g.size);
  io.list(g.ranks, static_cast<std::uint32_t>(page::max_runs));
  io.list(g.here, static_cast<std::uint32_t>(Progress::max_rows));
}

void fields(auto& io, Of<RankView> auto& r) {
  io(r.rank, r.pid, r.state, r.samples, r.rate, r.memory, r.doing, r.operation, r.inside, r.operation_s,
     r.came_last, r.late_s, r.last_output, r.last_lines);
  io.list(r.times, static_cast<std::uint32_t>(spent_kinds));
}

void fields(auto& io, Of<RestartView> auto& r) { io(r.detect, r.stop, r.decide, r.start, r.first_operation); }

void fields(auto& io, Of<NodeRanks> auto& n) {
  io(n.host, n.node_rank, n.round, n.period_s);
  io.list(n.findings, static_cast<std::uint32_t>(Diagnosis::max_sentences));
  io(n.goodput);
  io.list(n.times, static_cast<std::uint32_t>(time_kinds));
  io.list(n.restarts, static_cast<std::uint32_t>(JobTimes::most_restarts));
  io.list(n.ranks, static_cast<std::uint32_t>(NodeRanks::most_ranks));
}

void fields(auto& io, Of<LateRank> auto& r) { io(r.rank, r.pid, r.came_last, r.late, r.waited); }

void fields(auto& io, Of<ComparedGroup> auto& g) {
  io(g.name, g.collectives, g.spread);
  io.list(g.late, static_cast<std::uint32_t>(Arrivals::most_late));
}

void fields(auto& io, Of<ArrivalSample> auto& s) {
  io(s.sequence, s.last, s.pid, s.shortest, s.next, s.longest, s.sum, s.came_ns, s.since);
}

void fields(auto& io, Of<SampledGroup> auto& g) {
  io(g.identity, g.name, g.size, g.here, g.stride);
  io.list(g.samples, static_cast<std::uint32_t>(Arrivals::most_samples));
}

void fields(auto& io, Of<Arrivals> auto& a) {
  io.list(a.compared, static_cast<std::uint32_t>(Arrivals::most_late));
  io.list(a.sampled, static_cast<std::uint32_t>(Arrivals::most_sampled));
  io(a.clock_error_ns);
}

void fields(auto& io, Of<Lateness> auto& l) {
  io(l.straggler);
  io.list(l.ranks, static_cast<std::uint32_t>(max_slots));
}

}  // namespace dlaunch::agent
