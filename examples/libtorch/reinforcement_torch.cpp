// Reinforcement learning with an agent and observers: the agent has the policy, each observer a game.
//
//   $ dlaunch --nproc-per-node=3 reinforcement_torch
//
// In each step every observer asks the agent (rank 0) for its next move. The agent's function returns a
// future: no thread waits, and when the states of all observers have come the policy is computed once, for
// all of them.
//
// The game: a walker at some place on a line goes left or right, and is the better off the nearer it is to 0.
#include <dlaunch/torch/rpc.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

namespace rpc = dlaunch::rpc;
using dlaunch::Future;
using dlaunch::Promise;

constexpr int episodes = 40;
constexpr int steps = 10;

int number(const char* name) { return std::getenv(name) ? std::atoi(std::getenv(name)) : 0; }

// --- The agent

struct Agent {
  explicit Agent(int count) : observers(count), states(torch::zeros({count, 1})) {}

  const int observers;
  torch::nn::Linear policy{1, 2};
  torch::optim::Adam optimizer{policy->parameters(), 0.1};
  std::mutex mutex;
  // Of the step: which observers have come, and the moves of all.
  at::Tensor states;
  int waiting = 0;
  Promise<std::vector<int>> moves;
  // Of the episode, by step.
  std::vector<at::Tensor> log_probabilities;
  int batches = 0;
};

Future<int> next_move(Agent& agent, int observer, double state) {
  std::unique_lock lock(agent.mutex);
  const Future<int> own = agent.moves.future().then([observer](const Future<std::vector<int>>& all) {
    return all.wait()[static_cast<std::size_t>(observer)];
  });
  agent.states[observer][0] = state;
  if (++agent.waiting < agent.observers) return own;
  const at::Tensor probabilities = torch::softmax(agent.policy->forward(agent.states.clone()), 1);
  const at::Tensor chosen = torch::multinomial(probabilities.detach(), 1);
  agent.log_probabilities.push_back(torch::log(probabilities.gather(1, chosen)).squeeze(1));
  std::vector<int> moves;
  for (int i = 0; i < agent.observers; ++i) moves.push_back(chosen[i].item<int>());
  agent.waiting = 0;
  ++agent.batches;
  const Promise<std::vector<int>> step = std::exchange(agent.moves, {});
  lock.unlock();
  step.set_value(moves);
  return own;
}
DLAUNCH_RPC(next_move);

// What is gained from each step on, for one observer.
at::Tensor returns_of(const std::vector<double>& rewards) {
  at::Tensor returns = torch::empty({steps});
  double sum = 0;
  for (int step = steps; step-- > 0;)
    returns[step] = sum = rewards[static_cast<std::size_t>(step)] + 0.5 * sum;
  return returns;
}

void learn(Agent& agent, const std::vector<std::vector<double>>& rewards) {
  std::vector<at::Tensor> returns;
  for (const auto& one : rewards) returns.push_back(returns_of(one));
  const at::Tensor gain = torch::stack(returns, 1);  // by step and observer
  const at::Tensor advantage = (gain - gain.mean()) / (gain.std() + 1e-6);
  agent.optimizer.zero_grad();
  (-torch::stack(agent.log_probabilities) * advantage).sum().backward();
  agent.optimizer.step();
  agent.log_probabilities.clear();
}

// --- An observer

std::vector<double> play(const rpc::RRef<Agent>& agent, int observer, double place) {
  std::vector<double> rewards;
  for (int step = 0; step < steps; ++step) {
    place += agent.rpc_sync(next_move, observer, place) == 0 ? -1 : 1;
    rewards.push_back(-std::abs(place));
  }
  return rewards;
}
DLAUNCH_RPC(play);

// --- Both

void lead(int observers) {
  const auto own = std::make_shared<Agent>(observers);
  const rpc::RRef<Agent> agent(own);
  double first = 0;
  double last = 0;
  for (int episode = 0; episode < episodes; ++episode) {
    std::vector<Future<std::vector<double>>> games;
    for (int i = 0; i < observers; ++i) {
      const double place = torch::randint(-6, 7, {1}).item<double>();
      games.push_back(rpc::rpc_async("observer" + std::to_string(i + 1), play, agent, i, place));
    }
    std::vector<std::vector<double>> rewards;
    double mean = 0;
    for (const auto& game : games) {
      rewards.push_back(game.wait());
      for (const double reward : rewards.back()) mean += reward / steps / observers;
    }
    learn(*own, rewards);
    if (episode < 5) first += mean / 5;
    if (episode >= episodes - 5) last += mean / 5;
  }
  std::printf("%d moves of %d observers in %d batches\n", episodes * steps * observers, observers,
              own->batches);
  std::printf("the agent has %s\n", last > first ? "learned" : "not learned");
}

}  // namespace

int main() {
  try {
    const int rank = number("RANK");
    torch::manual_seed(3);
    rpc::init_rpc(rank == 0 ? "agent" : "observer" + std::to_string(rank));
    if (rank == 0) lead(number("WORLD_SIZE") - 1);
    rpc::shutdown();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "reinforcement_torch: %s\n", e.what());
    return 1;
  }
  return 0;
}
