// For rendezvous_bench.py: the members of a job, as far as a coordinator sees them, on connections from one
// process.
//
//   rendezvous_load HOST:PORT NODES LOSE
//
// Joins NODES-1 of NODES nodes (the agent that serves the endpoint is the other), all at once, and prints the
// milliseconds from the first connection until each has been told of the world. With LOSE=1 it then closes
// one connection, lets the others say that they have stopped as soon as they are told to, and prints the
// milliseconds until the last of them has been told of the next world.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agent/control/messages.h"
#include "agent/model/job_rules.h"
#include "store/loop/uv_loop.h"

namespace {

using namespace dlaunch::agent;

class Swarm;

class Member final : public ConnectionHandler {
 public:
  Member(Swarm& swarm, AgentId id) : swarm_(swarm), id_(id) {}
  void dial(const Address& address);
  void leave();
  void on_connected(ConnId conn) override;
  void on_received(ConnId conn, ByteSpan bytes) override;
  void on_closed(ConnId conn, const ConnectionEnd& end) override;

 private:
  void say(const Message& message);
  void hear(const Message& message);

  Swarm& swarm_;
  AgentId id_;
  ConnId conn_;
  FrameReader reader_ = FrameReader::from_coordinator();
};

class Swarm {
 public:
  Swarm(const Address& address, int nodes, bool lose) : address_(address), nodes_(nodes), lose_(lose) {}

  int run() {
    for (int i = 1; i < nodes_; ++i)
      members_.push_back(std::make_unique<Member>(*this, static_cast<AgentId>(i)));
    began_ = loop.now();
    for (const auto& member : members_) member->dial(address_);
    loop.run();
    return failed_ ? 1 : 0;
  }
  void told(std::uint32_t round) {
    if (++told_ < expected()) return;
    told_ = 0;
    std::printf("%.3f\n", to_seconds(loop.now() - began_) * 1e3);
    if (round > 0 || !lose_) return loop.stop();
    lost_ = 1;
    began_ = loop.now();
    members_.back()->leave();
  }
  void fail(const std::string& why) {
    std::fprintf(stderr, "rendezvous_load: %s\n", why.c_str());
    failed_ = true;
    loop.stop();
  }
  [[nodiscard]] Join join(AgentId id) const {
    Join join;
    join.job_id = "bench";
    join.node_rank = -1;
    join.slots = 1;
    join.host = "n" + std::to_string(id);
    join.agent = id;
    join.rules = rules_of(as_the_agent_was_told(nodes_));
    return join;
  }

  UvLoop loop;

 private:
  // By rendezvous_bench.py, on its command line.
  [[nodiscard]] static JobSpec as_the_agent_was_told(int nodes) {
    JobSpec job;
    job.nnodes = nodes;
    job.min_nodes = std::max(1, nodes - 1);
    job.node_timeout = {};
    job.stop_timeout = {};
    job.policy.first_delay = std::chrono::seconds(1);
    return job;
  }
  [[nodiscard]] int expected() const { return nodes_ - 1 - lost_; }

  Address address_;
  int nodes_;
  bool lose_;
  std::vector<std::unique_ptr<Member>> members_;
  TimePoint began_;
  int told_ = 0;
  int lost_ = 0;
  bool failed_ = false;
};

void Member::dial(const Address& address) {
  conn_ = swarm_.loop.connect(address, swarm_.loop.now() + std::chrono::seconds(30), *this);
}
void Member::leave() { swarm_.loop.close(conn_); }
void Member::on_connected(ConnId conn) {
  swarm_.loop.send(conn, as_byte_span(greeting));
  say(swarm_.join(id_));
}
void Member::on_received(ConnId, ByteSpan bytes) {
  reader_.append(bytes);
  for (auto message = reader_.next(); message && *message; message = reader_.next()) hear(**message);
}
void Member::on_closed(ConnId, const ConnectionEnd& end) { swarm_.fail(end.reason.message()); }
void Member::say(const Message& message) { swarm_.loop.send(conn_, as_byte_span(encode(message))); }
void Member::hear(const Message& message) {
  if (const auto* world = std::get_if<NewWorld>(&message)) {
    if (!world->world.members.empty()) swarm_.told(world->world.round);
  } else if (const auto* stop = std::get_if<StopRound>(&message)) {
    say(Stopped{stop->round});
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    swarm_.fail(refused->why);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: rendezvous_load HOST:PORT NODES LOSE\n");
    return 2;
  }
  const auto address = parse_address(argv[1], 0);
  if (!address) return 2;
  return Swarm(*address, std::atoi(argv[2]), std::atoi(argv[3]) != 0).run();
}
