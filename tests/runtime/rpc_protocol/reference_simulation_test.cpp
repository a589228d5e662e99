// Remote references among simulated workers: messages are delayed, reordered, repeated and lost, workers
// crash. Whatever happens, a value is not destroyed while a living worker may use it, and is destroyed when
// none can. The same with a mistake in the protocol, which must be found.

#include <gtest/gtest.h>

#include <algorithm>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/rpc_protocol/reference_table.h"

namespace dlaunch::internal {
namespace {

enum class Mistake {
  none,
  senders_keep_no_handle,
  epochs_do_not_grow,
  nobody_asks,
  owners_do_not_learn_of_deaths,
  lost_drops_are_not_sent_again,
};

// What is under way. Any of them may arrive next.
struct Flying {
  enum class Kind {
    control,
    acknowledgement,
    reference,
    create,
    created,
    creation_failed,
    unanswered,
    death
  };
  Kind kind;
  WorkerId from = 0;
  WorkerId to = 0;
  ReferenceMessage message = {};
  ReferenceId id = {};
  std::uint64_t number = 0;  // the epoch or the token
  bool answer = false;
};

struct Worker {
  explicit Worker(WorkerId self) : table(self) {}
  ReferenceTable table;
  std::vector<ReferenceId> handles;
  bool is_alive = true;
};

class World {
 public:
  World(unsigned seed, Mistake mistake) : random_(seed), mistake_(mistake) {
    for (WorkerId i = 0; i < 4; ++i) workers_.emplace_back(i);
  }

  // What went wrong; empty: nothing.
  std::string run() {
    for (int i = 0; i < 150 && wrong_.empty(); ++i) {
      if (draw(2) == 0) act();
      if (draw(3) > 0) deliver();
    }
    // The programs end: everything is released, and what is under way arrives.
    for (int i = 0; i < 20000 && wrong_.empty(); ++i) {
      for (Worker& worker : workers_) {
        while (worker.is_alive && !worker.handles.empty()) release(worker, 0);
      }
      if (flying_.empty()) break;
      deliver();
    }
    for (Worker& worker : workers_) {
      if (!wrong_.empty() || !worker.is_alive) continue;
      if (worker.table.owned() > 0) wrong_ = "a value is never destroyed";
      if (worker.table.held() > 0) wrong_ = "a reference stays";
      if (worker.table.unsettled() > 0) wrong_ = "a token is never settled";
    }
    return wrong_;
  }

 private:
  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  bool chance(unsigned percent) { return draw(100) < percent; }

  Worker* draw_alive() {
    Worker& worker = workers_[draw(4)];
    return worker.is_alive ? &worker : nullptr;
  }
  WorkerId id_of(const Worker& worker) const { return static_cast<WorkerId>(&worker - workers_.data()); }

  // What a program does.
  void act() {
    Worker* const worker = draw_alive();
    if (!worker) return;
    const WorkerId self = id_of(*worker);
    const unsigned what = draw(100);
    if (what < 20) {
      worker->handles.push_back(worker->table.create());
    } else if (what < 35) {
      const WorkerId owner = (self + 1 + draw(3)) % 4;
      const auto [id, epoch] = worker->table.create_at(owner);
      worker->handles.push_back(id);
      flying_.push_back({.kind = Flying::Kind::create, .from = self, .to = owner, .id = id, .number = epoch});
    } else if (what < 70) {
      pass(*worker);
    } else if (what < 98) {
      if (!worker->handles.empty()) release(*worker, draw(static_cast<unsigned>(worker->handles.size())));
    } else if (crashes_ < 2) {
      crash(*worker);
    }
  }

  void pass(Worker& worker) {
    if (worker.handles.empty()) return;
    const ReferenceId id = worker.handles[draw(static_cast<unsigned>(worker.handles.size()))];
    if (!worker.table.is_ready(id)) return;
    const WorkerId self = id_of(worker);
    const WorkerId to = (self + 1 + draw(3)) % 4;
    const std::uint64_t token = worker.table.pass(id, to);
    const Flying message{.kind = Flying::Kind::reference, .from = self, .to = to, .id = id, .number = token};
    const unsigned fate = draw(100);
    if (fate < 85) flying_.push_back(message);  // else it is lost
    if (fate >= 70 && mistake_ != Mistake::nobody_asks) {
      flying_.push_back({.kind = Flying::Kind::unanswered, .from = to, .to = self, .number = token});
    }
    if (mistake_ == Mistake::senders_keep_no_handle) {
      with_actions(worker, [&](auto& actions) {
        worker.table.on_message(to, {ReferenceMessage::Kind::settled, {}, token}, actions);
      });
    }
  }

  void release(Worker& worker, std::size_t which) {
    const ReferenceId id = worker.handles[which];
    worker.handles.erase(worker.handles.begin() + static_cast<std::ptrdiff_t>(which));
    with_actions(worker, [&](auto& actions) { worker.table.release(id, actions); });
  }

  void crash(Worker& worker) {
    ++crashes_;
    worker.is_alive = false;
    worker.handles.clear();
    for (WorkerId i = 0; i < 4; ++i) {
      flying_.push_back({.kind = Flying::Kind::death, .from = id_of(worker), .to = i});
    }
  }

  template <class Call>
  void with_actions(Worker& worker, const Call& call) {
    ReferenceTable::Actions actions;
    call(actions);
    for (const ReferenceAction& action : actions) {
      if (const auto* const send = std::get_if<SendReference>(&action)) {
        flying_.push_back(
            {.kind = Flying::Kind::control, .from = id_of(worker), .to = send->to, .message = send->message});
      } else if (const auto* const destroyed = std::get_if<DestroyValue>(&action)) {
        check_unused(destroyed->id);
      } else if (const auto* const broken = std::get_if<ReferenceBroken>(&action)) {
        const bool was_created = !failed_.contains(broken->id);
        if (crashes_ == 0 && was_created) wrong_ = "a reference that was passed is broken";
      }
    }
  }

  void check_unused(const ReferenceId& id) {
    for (const Worker& worker : workers_) {
      const bool has_handle = std::ranges::find(worker.handles, id) != worker.handles.end();
      if (worker.is_alive && has_handle && worker.table.is_ready(id))
        wrong_ = "a value is destroyed that is in use";
    }
  }

  void deliver() {
    if (flying_.empty()) return;
    std::swap(flying_[draw(static_cast<unsigned>(flying_.size()))], flying_.back());
    const Flying one = flying_.back();
    flying_.pop_back();
    Worker& to = workers_[one.to];
    if (!to.is_alive && one.kind == Flying::Kind::create) {
      return flying_.push_back(
          {.kind = Flying::Kind::creation_failed, .from = one.to, .to = one.from, .id = one.id});
    }
    if (!to.is_alive) return;
    switch (one.kind) {
      case Flying::Kind::control:
        return deliver_control(one, to);
      case Flying::Kind::acknowledgement:
        return with_actions(
            to, [&](auto& actions) { to.table.on_acknowledged(one.from, one.message, one.answer, actions); });
      case Flying::Kind::reference:
        return with_actions(to, [&](auto& actions) {
          if (to.table.on_passed(one.from, one.id, one.number, actions)) to.handles.push_back(one.id);
        });
      case Flying::Kind::create:
        return deliver_create(one, to);
      case Flying::Kind::created:
        return with_actions(to, [&](auto& actions) { to.table.created(one.id, actions); });
      case Flying::Kind::creation_failed:
        failed_.insert(one.id);
        return with_actions(to, [&](auto& actions) { to.table.creation_failed(one.id, actions); });
      case Flying::Kind::unanswered:
        return with_actions(to, [&](auto& actions) { to.table.ask(one.number, actions); });
      case Flying::Kind::death:
        if (mistake_ == Mistake::owners_do_not_learn_of_deaths) return;
        return with_actions(to, [&](auto& actions) { to.table.on_dead(one.from, actions); });
    }
  }

  // It is sent again until it is acknowledged: it may arrive several times.
  void deliver_control(const Flying& one, Worker& to) {
    const bool is_lost = chance(20);
    if (is_lost && mistake_ == Mistake::lost_drops_are_not_sent_again &&
        one.message.kind == ReferenceMessage::Kind::drop)
      return;
    if (is_lost || chance(20)) flying_.push_back(one);
    if (is_lost) return;
    with_actions(to, [&](auto& actions) {
      ReferenceMessage message = one.message;
      const bool has_epoch = message.kind <= ReferenceMessage::Kind::drop;
      if (mistake_ == Mistake::epochs_do_not_grow && has_epoch) message.number = 1;
      const bool answer = to.table.on_message(one.from, message, actions);
      flying_.push_back({.kind = Flying::Kind::acknowledgement,
                         .from = one.to,
                         .to = one.from,
                         .message = one.message,
                         .answer = answer});
    });
  }

  void deliver_create(const Flying& one, Worker& to) {
    Flying answer{.kind = Flying::Kind::creation_failed, .from = one.to, .to = one.from, .id = one.id};
    if (chance(10)) {  // the caller gives up before it arrives
      flying_.push_back(answer);
      if (chance(50)) flying_.push_back(one);
      return;
    }
    if (to.table.on_create(one.from, one.id, one.number) && !chance(10)) answer.kind = Flying::Kind::created;
    flying_.push_back(answer);
  }

  std::mt19937 random_;
  const Mistake mistake_;
  std::vector<Worker> workers_;
  std::vector<Flying> flying_;
  int crashes_ = 0;
  std::set<ReferenceId> failed_;  // their creation is given up
  std::string wrong_;
};

TEST(ReferenceSimulation, NothingIsDestroyedTooEarlyOrNever) {
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    ASSERT_EQ(World(seed, Mistake::none).run(), "") << "seed " << seed;
  }
}

// Whether some run finds it.
bool is_found(Mistake mistake, const std::string& as) {
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    if (World(seed, mistake).run() == as) return true;
  }
  return false;
}

TEST(ReferenceSimulation, FindsMistakes) {
  EXPECT_TRUE(is_found(Mistake::senders_keep_no_handle, "a reference that was passed is broken"));
  EXPECT_TRUE(is_found(Mistake::epochs_do_not_grow, "a value is destroyed that is in use"));
  EXPECT_TRUE(is_found(Mistake::nobody_asks, "a token is never settled"));
  EXPECT_TRUE(is_found(Mistake::owners_do_not_learn_of_deaths, "a value is never destroyed"));
  EXPECT_TRUE(is_found(Mistake::lost_drops_are_not_sent_again, "a value is never destroyed"));
}

}  // namespace
}  // namespace dlaunch::internal
