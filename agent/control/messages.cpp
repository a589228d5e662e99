#include "agent/control/messages.h"

#include <algorithm>

#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

enum class Kind : std::uint8_t {
  join = 1,
  failed,
  done,
  stopped,
  leave,
  heartbeat,
  welcome,
  refused,
  new_world,
  stop_round,
  end,
  hello,
  challenge,
  proof,
  progress,
  notice,
  history,
  preempt,
  ask
};

// Fields are described once, for both directions: a Writer and a Reader have the same calls.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  void number(const int& value) { out_.i64(value); }
  void number(const std::int64_t& value) { out_.i64(value); }
  void number(const std::uint64_t& value) { out_.integer(value); }
  void number(const std::uint32_t& value) { out_.u32(value); }
  void number(const std::uint16_t& value) { out_.integer(value); }
  void flag(const bool& value) { out_.u8(value ? 1 : 0); }
  void duration(const Duration& value) { out_.i64(value.count()); }
  void text(const std::string& value) { out_.text(std::string_view(value).substr(0, max_text)); }
  template <class E>
  void choice(const E& value, E) {
    out_.u8(static_cast<std::uint8_t>(value));
  }
  template <class T, class F>
  void list(const std::vector<T>& items, std::uint32_t, F&& each) {
    out_.u32(static_cast<std::uint32_t>(items.size()));
    for (const T& item : items) each(item);
  }

 private:
  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(ByteSpan body) : in_(body) {}
  void number(int& value) {
    const std::int64_t wide = in_.i64();
    value = static_cast<int>(wide);
    if (value != wide) bad_ = true;
  }
  void number(std::int64_t& value) { value = in_.i64(); }
  void number(std::uint64_t& value) { value = in_.integer<std::uint64_t>(); }
  void number(std::uint32_t& value) { value = in_.u32(); }
  void number(std::uint16_t& value) { value = in_.integer<std::uint16_t>(); }
  void flag(bool& value) {
    const std::uint8_t raw = in_.u8();
    value = raw != 0;
    if (raw > 1) bad_ = true;
  }
  void text(std::string& value) { value = std::string(in_.text(max_text)); }
  void duration(Duration& value) { value = Duration(in_.i64()); }
  template <class E>
  void choice(E& value, E last) {
    const std::uint8_t raw = in_.u8();
    value = static_cast<E>(raw);
    if (raw > static_cast<std::uint8_t>(last)) {
      bad_ = true;
      value = last;
    }
  }
  template <class T, class F>
  void list(std::vector<T>& items, std::uint32_t limit, F&& each) {
    const std::uint32_t count = in_.u32();
    // Every item takes at least one byte, so an announced count cannot make us allocate more than was sent.
    if (count > limit || count > in_.left()) {
      bad_ = true;
      return;
    }
    for (std::uint32_t i = 0; i < count && good(); ++i) each(items.emplace_back());
  }
  std::uint8_t kind() { return in_.u8(); }
  [[nodiscard]] bool good() const { return in_.ok() && !bad_; }
  [[nodiscard]] bool done() const { return in_.done() && !bad_; }

 private:
  ByteReader in_;
  bool bad_ = false;
};

template <class IO, class S>
void status_fields(IO& io, S& s) {
  io.choice(s.how, ExitStatus::How::signaled);
  io.number(s.number);
  io.flag(s.core_dumped);
}

template <class IO, class G>
void grant_fields(IO& io, G& g) {
  io.number(g.echo);
  io.duration(g.lease);
}

template <class IO, class F>
void failure_fields(IO& io, F& f) {
  io.choice(f.kind, FailureKind::left);
  io.number(f.round);
  io.number(f.node_rank);
  io.text(f.host);
  io.number(f.rank);
  io.number(f.local_rank);
  io.number(f.pid);
  status_fields(io, f.status);
  io.text(f.why);
  io.text(f.tail);
  io.flag(f.tail_is_of_stdout);
  io.text(f.exception);
  io.text(f.traceback);
  io.text(f.hint);
  io.text(f.log_file);
  io.number(f.unix_ms);
  io.flag(f.blames_peer);
  io.number(f.blamed_rank);
  io.text(f.blamed_for);
  io.flag(f.while_stopping);
  io.flag(f.ended_by_us);
  io.duration(f.after);
}

template <class IO, class R>
void restart_fields(IO& io, R& restarts) {
  io.list(restarts, Outcome::max_restarts, [&](auto& r) {
    io.number(r.number);
    io.duration(r.after);
    failure_fields(io, r.cause);
    io.duration(r.lasted);
    io.flag(r.counted);
  });
}

template <class IO, class W>
void world_fields(IO& io, W& w) {
  io.number(w.leader);
  io.number(w.round);
  io.number(w.world_size);
  io.number(w.nodes);
  io.number(w.restarts_used);
  io.text(w.store.host);
  io.number(w.store.port);
  io.duration(w.age);
  restart_fields(io, w.restarts);
  io.list(w.members, static_cast<std::uint32_t>(max_nodes), [&](auto& m) {
    io.number(m.node_rank);
    io.number(m.slots);
    io.number(m.base_rank);
    io.text(m.host);
    io.number(m.agent);
    io.number(m.sticky_rank);
    io.number(m.role_base);
    io.number(m.role_world_size);
  });
  io.number(w.fencing);
}

template <class IO, class O>
void outcome_fields(IO& io, O& o) {
  io.number(o.exit_code);
  io.number(o.restarts_used);
  io.flag(o.failed);
  failure_fields(io, o.cause);
  io.text(o.no_restart);
  io.list(o.rank_positions, Outcome::max_sentences, [&](auto& sentence) { io.text(sentence); });
  io.list(o.others, Outcome::max_others, [&](auto& f) { failure_fields(io, f); });
  io.number(o.failure_count);
  io.list(o.tallies, Outcome::max_tallies, [&](auto& t) {
    io.text(t.what);
    io.number(t.count);
  });
  restart_fields(io, o.restarts);
}

template <class IO, class G>
void standing_fields(IO& io, G& groups) {
  io.list(groups, static_cast<std::uint32_t>(Progress::max_groups), [&](auto& g) {
    io.number(g.identity);
    io.text(g.name);
    io.number(g.size);
    io.list(g.ranks, static_cast<std::uint32_t>(page::max_runs), [&](auto& run) {
      io.number(run.first);
      io.number(run.stride);
      io.number(run.count);
    });
    io.list(g.here, static_cast<std::uint32_t>(Progress::max_rows), [&](auto& r) {
      io.number(r.rank);
      io.number(r.entered);
      io.number(r.done);
      io.flag(r.inside);
      io.flag(r.left);
      io.choice(r.condition, Condition::ended);
      io.choice(r.operation, page::last_operation);
      io.number(r.peer);
      io.flag(r.needs_all);
      io.duration(r.waited);
      io.text(r.how_ended);
    });
  });
}

struct Fields {
  template <class IO, class M>
  static void of(IO& io, M& m) {
    using T = std::remove_const_t<M>;
    if constexpr (std::is_same_v<T, Join>) {
      io.text(m.job_id);
      io.number(m.min_nodes);
      io.number(m.nnodes);
      io.number(m.max_restarts);
      io.number(m.node_rank);
      io.number(m.slots);
      io.text(m.host);
      io.text(m.build);
      io.number(m.agent);
      io.flag(m.joined_once);
      io.flag(m.stopped);
      io.number(m.leader);
      io.text(m.leader_host);
      io.number(m.round);
      io.number(m.sticky_rank);
      io.number(m.nodes);
      io.number(m.restarts_used);
      restart_fields(io, m.restarts);
      io.duration(m.age);
      io.duration(m.lease);
      io.duration(m.rest);
      io.number(m.stamp);
      io.flag(m.stays);
      io.text(m.rules);
      io.text(m.role);
      io.text(m.unfit);
      io.number(m.fencing);
    } else if constexpr (std::is_same_v<T, Heartbeat>) {
      io.number(m.stamp);
      io.number(m.own);
      grant_fields(io, m.grant);
    } else if constexpr (std::is_same_v<T, Welcome>) {
      io.flag(m.leads);
      io.flag(m.elsewhere);
      io.number(m.stamp);
      grant_fields(io, m.grant);
      io.number(m.fencing);
    } else if constexpr (std::is_same_v<T, Failed>) {
      failure_fields(io, m.failure);
      io.duration(m.age);
    } else if constexpr (std::is_same_v<T, Leave>) {
      failure_fields(io, m.failure);
    } else if constexpr (std::is_same_v<T, Done> || std::is_same_v<T, Stopped>) {
      io.number(m.round);
    } else if constexpr (std::is_same_v<T, Refused>) {
      io.text(m.why);
      io.flag(m.for_good);
    } else if constexpr (std::is_same_v<T, NewWorld>) {
      world_fields(io, m.world);
      grant_fields(io, m.grant);
    } else if constexpr (std::is_same_v<T, StopRound>) {
      io.number(m.round);
      io.text(m.why);
      io.flag(m.at_once);
    } else if constexpr (std::is_same_v<T, Hello>) {
      io.text(m.nonce);
    } else if constexpr (std::is_same_v<T, Challenge>) {
      io.text(m.nonce);
      io.text(m.mac);
    } else if constexpr (std::is_same_v<T, Proof>) {
      io.text(m.mac);
    } else if constexpr (std::is_same_v<T, Notice>) {
      io.text(m.text);
    } else if constexpr (std::is_same_v<T, RestartHistory>) {
      io.number(m.restarts_used);
      restart_fields(io, m.restarts);
    } else if constexpr (std::is_same_v<T, Preempt>) {
      io.number(m.round);
      io.text(m.node_name);
    } else if constexpr (std::is_same_v<T, Ask>) {
      io.text(m.job_id);
    } else if constexpr (std::is_same_v<T, Progress>) {
      io.number(m.round);
      io.duration(m.quiet);
      io.flag(m.inside);
      standing_fields(io, m.groups);
    } else {
      static_assert(std::is_same_v<T, End>);
      outcome_fields(io, m.outcome);
    }
  }
};

Kind kind_of(const Message& message) { return static_cast<Kind>(message.index() + 1); }

template <class M>
Result<Message> read_fields(Reader& in) {
  M m;
  Fields::of(in, m);
  if (!in.done())
    return Error{ErrorKind::invalid, "malformed agent message", "", "its fields do not fit its length", ""};
  return Message(std::move(m));
}

}  // namespace

Progress bounded(Progress progress) {
  if (progress.groups.size() > Progress::max_groups) progress.groups.resize(Progress::max_groups);
  std::size_t room = Progress::max_rows;
  for (GroupProgress& group : progress.groups) {
    if (group.here.size() > room) group.here.resize(room);
    room -= group.here.size();
  }
  return progress;
}

std::string encode(const Message& message) {
  std::string body;
  ByteWriter(body).u8(static_cast<std::uint8_t>(kind_of(message)));
  Writer out(body);
  std::visit([&](const auto& m) { Fields::of(out, m); }, message);
  std::string frame;
  ByteWriter(frame).u32(static_cast<std::uint32_t>(body.size()));
  return frame + body;
}

Result<Message> decode(ByteSpan body) {
  Reader in(body);
  const std::uint8_t raw = in.kind();
  if (raw < static_cast<std::uint8_t>(Kind::join) || raw > static_cast<std::uint8_t>(Kind::ask)) {
    return Error{ErrorKind::invalid, "malformed agent message", "", "unknown kind " + std::to_string(raw),
                 ""};
  }
  switch (static_cast<Kind>(raw)) {
    case Kind::join:
      return read_fields<Join>(in);
    case Kind::failed:
      return read_fields<Failed>(in);
    case Kind::done:
      return read_fields<Done>(in);
    case Kind::stopped:
      return read_fields<Stopped>(in);
    case Kind::leave:
      return read_fields<Leave>(in);
    case Kind::heartbeat:
      return read_fields<Heartbeat>(in);
    case Kind::welcome:
      return read_fields<Welcome>(in);
    case Kind::refused:
      return read_fields<Refused>(in);
    case Kind::new_world:
      return read_fields<NewWorld>(in);
    case Kind::stop_round:
      return read_fields<StopRound>(in);
    case Kind::end:
      return read_fields<End>(in);
    case Kind::hello:
      return read_fields<Hello>(in);
    case Kind::challenge:
      return read_fields<Challenge>(in);
    case Kind::proof:
      return read_fields<Proof>(in);
    case Kind::progress:
      return read_fields<Progress>(in);
    case Kind::notice:
      return read_fields<Notice>(in);
    case Kind::history:
      return read_fields<RestartHistory>(in);
    case Kind::preempt:
      return read_fields<Preempt>(in);
    case Kind::ask:
      return read_fields<Ask>(in);
  }
  return Error{ErrorKind::internal, "malformed agent message", "", "", ""};
}

void FrameReader::append(ByteSpan bytes) { buffer_.append(as_text(bytes)); }

Result<std::optional<Message>> FrameReader::next() {
  if (greeting_left_) {
    const std::size_t have = std::min(buffer_.size(), greeting.size());
    if (std::string_view(buffer_).substr(0, have) != greeting.substr(0, have)) {
      const std::size_t version = greeting.size() - 1;  // its place, and its end
      const bool other_version =
          have == greeting.size() && buffer_.compare(0, version, greeting, 0, version) == 0;
      return Error{ErrorKind::refused, "not a dlaunch agent of this version", "",
                   other_version
                       ? "it speaks version " + std::to_string(static_cast<std::uint8_t>(buffer_[version])) +
                             " of the agents' protocol, not " + std::to_string(protocol_version)
                       : "it greeted differently",
                   "use one dlaunch version on all nodes"};
    }
    if (have < greeting.size()) return std::optional<Message>{};
    buffer_.erase(0, greeting.size());
    greeting_left_ = false;
    is_dlaunch_ = true;
  }
  if (buffer_.size() < sizeof(std::uint32_t)) return std::optional<Message>{};
  const std::uint32_t length = ByteReader(as_byte_span(buffer_)).u32();
  if (length > limit_ && !is_dlaunch_) {
    constexpr std::size_t shown = 40;
    return Error{ErrorKind::refused, "what answers there is no dlaunch", "",
                 "it begins with '" + shortened(sanitize_for_terminal(buffer_), shown) + "'", ""};
  }
  if (length > limit_) {
    return Error{ErrorKind::limit, "malformed agent message", "",
                 "a frame of " + std::to_string(length) + " bytes is too long", ""};
  }
  if (buffer_.size() < sizeof length + length) return std::optional<Message>{};
  auto message = decode(as_byte_span(buffer_).subspan(sizeof length, length));
  buffer_.erase(0, sizeof length + length);
  if (!message) return std::move(message).error();
  is_dlaunch_ = true;
  return std::optional<Message>(std::move(message).value());
}

}  // namespace dlaunch::agent
