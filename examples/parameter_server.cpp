// A parameter server: trainers send it gradients, and get the model of the next step when all have come.
//
// The server's function returns a future, so no thread of it waits for the trainers that are late.
//
//   $ dlaunch --nproc-per-node=3 parameter_server
#include <dlaunch/rpc.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using Model = std::vector<double>;  // y = model[0] * x + model[1]

constexpr int steps = 200;
constexpr double learning_rate = 0.02;

int from_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}
int trainers() { return from_environment("WORLD_SIZE") - 1; }

// --- The server

struct Server {
  std::mutex mutex;
  Model model = {0, 0};
  Model sum = {0, 0};
  int arrived = 0;
  int served = 0;
  dlaunch::Promise<Model> step;
};
Server& server() {
  static Server only;
  return only;
}

Model first_model() { return server().model; }
DLAUNCH_RPC(first_model);

// Completes when all trainers have sent theirs.
dlaunch::Future<Model> next_model(const Model& gradient) {
  Server& own = server();
  std::unique_lock lock(own.mutex);
  const dlaunch::Promise<Model> step = own.step;
  for (std::size_t i = 0; i < gradient.size(); ++i) own.sum[i] += gradient[i];
  ++own.served;
  if (++own.arrived < trainers()) return step.future();
  for (std::size_t i = 0; i < own.model.size(); ++i) own.model[i] -= learning_rate * own.sum[i] / trainers();
  own.sum = {0, 0};
  own.arrived = 0;
  own.step = {};
  const Model model = own.model;
  lock.unlock();
  step.set_value(model);
  return step.future();
}
DLAUNCH_RPC(next_model);

// --- A trainer

// Of the mean squared error over this trainer's points of y = 2 x + 1.
Model gradient(const Model& model, int trainer) {
  Model sum = {0, 0};
  constexpr int points = 10;
  for (int i = 0; i < points; ++i) {
    const double x = 0.5 * ((i + 3 * trainer) % points);
    const double error = model[0] * x + model[1] - (2 * x + 1);
    sum[0] += 2 * error * x / points;
    sum[1] += 2 * error / points;
  }
  return sum;
}

void train(int trainer) {
  Model model = dlaunch::rpc::rpc_sync("ps", first_model);
  for (int step = 0; step < steps; ++step) {
    model = dlaunch::rpc::rpc_sync("ps", next_model, gradient(model, trainer));
  }
  std::printf("trainer%d: after %d steps y = %.2f x + %.2f\n", trainer, steps, model[0], model[1]);
}

}  // namespace

int main() {
  const int rank = from_environment("RANK");
  try {
    dlaunch::rpc::init_rpc(rank == 0 ? "ps" : "trainer" + std::to_string(rank));
    if (rank > 0) train(rank);
    dlaunch::rpc::shutdown();  // the server serves until all trainers are through
  } catch (const dlaunch::DistError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  if (rank == 0) std::printf("ps: %d gradients from %d trainers\n", server().served, trainers());
  return 0;
}
