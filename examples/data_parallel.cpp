// Data-parallel training with the gradient reducer: each rank computes gradients from its part of every
// batch, layer by layer from the last to the first, and the gradients of a layer are averaged over the ranks
// while those of the layer before are still being computed. The losses do not depend on the number of ranks.
//
//   $ dlaunch --nproc-per-node=4 data_parallel
#include <dlaunch/data_parallel.h>
#include <dlaunch/distributed.h>
#include <dlaunch/sampler.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace {

using dlaunch::Tensor;

constexpr std::size_t points = 512;
constexpr std::size_t batch = 32;  // of all ranks together
constexpr std::uint64_t epochs = 30;
constexpr float rate = 0.2F;
constexpr std::array<std::size_t, 4> widths{2, 16, 16, 1};

struct Point {
  std::array<float, 2> place;
  float label;  // whether it lies in a circle
};

// A grid without gaps that looks random; the same on all ranks.
std::vector<Point> make_data() {
  std::vector<Point> data;
  for (std::size_t i = 0; i < points; ++i) {
    const float x = 2 * std::fmod(static_cast<float>(i) * 0.618034F, 1.0F) - 1;
    const float y = 2 * (static_cast<float>(i) + 0.5F) / points - 1;
    data.push_back({{x, y}, x * x + y * y < 0.5F ? 1.0F : -1.0F});
  }
  return data;
}

// Fully connected, with tanh behind it.
struct Layer {
  std::size_t inputs;
  std::size_t outputs;
  std::vector<float> weights;  // one row of inputs an output
  std::vector<float> biases;

  Layer(std::size_t in, std::size_t out) : inputs(in), outputs(out), weights(in * out), biases(out) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = 2 * std::sin(static_cast<float>(i + 1) * 12.9898F) / std::sqrt(static_cast<float>(in));
  }
};

using Values = std::vector<std::vector<float>>;  // by layer, input first; of one point after the other

void forward(const Layer& layer, std::span<const float> in, std::vector<float>& out) {
  const std::size_t count = in.size() / layer.inputs;
  out.resize(count * layer.outputs);
  for (std::size_t n = 0; n < count; ++n) {
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      float sum = layer.biases[o];
      for (std::size_t i = 0; i < layer.inputs; ++i)
        sum += layer.weights[o * layer.inputs + i] * in[n * layer.inputs + i];
      out[n * layer.outputs + o] = std::tanh(sum);
    }
  }
}

// From the derivatives by the layer's outputs to those by its inputs; adds up the gradients of its
// parameters.
std::vector<float> backward(const Layer& layer, std::span<const float> in, std::span<const float> out,
                            std::span<const float> by_output, std::span<float> weights,
                            std::span<float> biases) {
  std::vector<float> by_input(in.size());
  for (std::size_t at = 0; at < out.size(); ++at) {
    const std::size_t n = at / layer.outputs;
    const std::size_t o = at % layer.outputs;
    const float delta = by_output[at] * (1 - out[at] * out[at]);
    biases[o] += delta;
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      weights[o * layer.inputs + i] += delta * in[n * layer.inputs + i];
      by_input[n * layer.inputs + i] += delta * layer.weights[o * layer.inputs + i];
    }
  }
  return by_input;
}

std::span<float> floats(const Tensor& tensor) { return {static_cast<float*>(tensor.data()), tensor.numel()}; }

// Takes a step with this rank's part of a batch; returns the loss, summed over the part.
float train_step(std::vector<Layer>& layers, dlaunch::GradientReducer& reducer,
                 const std::vector<Point>& data, std::span<const std::size_t> part) {
  reducer.begin_step();
  reducer.zero_gradients();
  Values values(layers.size() + 1);
  for (const std::size_t index : part)
    values[0].insert(values[0].end(), data[index].place.begin(), data[index].place.end());
  for (std::size_t l = 0; l < layers.size(); ++l) forward(layers[l], values[l], values[l + 1]);

  float loss = 0;
  std::vector<float> derivatives(part.size());
  for (std::size_t n = 0; n < part.size(); ++n) {
    const float error = values.back()[n] - data[part[n]].label;
    loss += error * error;
    derivatives[n] = 2 * error / static_cast<float>(part.size());
  }
  for (std::size_t l = layers.size(); l-- > 0;) {
    derivatives = backward(layers[l], values[l], values[l + 1], derivatives, floats(reducer.gradient(2 * l)),
                           floats(reducer.gradient(2 * l + 1)));
    reducer.mark_ready(2 * l + 1);
    reducer.mark_ready(2 * l);
  }
  reducer.finish_step();
  return loss;
}

void update(std::vector<float>& parameters, const Tensor& gradient) {
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * floats(gradient)[i];
}

}  // namespace

int main() {
  try {
    dlaunch::init_process_group();
    const int rank = dlaunch::get_rank();
    const int ranks = dlaunch::get_world_size();
    if (batch % static_cast<std::size_t>(ranks) != 0) {
      std::fprintf(stderr, "data_parallel: a batch of %zu does not divide by %d ranks\n", batch, ranks);
      return EXIT_FAILURE;
    }
    std::vector<Layer> layers;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) layers.emplace_back(widths[l], widths[l + 1]);
    std::vector<dlaunch::Parameter> parameters;
    for (Layer& layer : layers) {
      const std::string name = "layer" + std::to_string(parameters.size() / 2);
      parameters.push_back({name + ".weights", Tensor::of(layer.weights)});
      parameters.push_back({name + ".biases", Tensor::of(layer.biases)});
    }
    // Small buckets, since the model is small: with the sizes of the default, one would hold everything.
    dlaunch::GradientReducer reducer(parameters, {.first_bucket_bytes = 64, .bucket_cap_bytes = 1024});

    const std::vector<Point> data = make_data();
    const dlaunch::DistributedSampler sampler(data.size(), ranks, rank);
    const std::size_t part = batch / static_cast<std::size_t>(ranks);
    for (std::uint64_t epoch = 1; epoch <= epochs; ++epoch) {
      const std::vector<std::size_t> own = sampler.indices(epoch);
      std::vector<float> loss(1);
      for (std::size_t begin = 0; begin < own.size(); begin += part) {
        loss[0] += train_step(layers, reducer, data, std::span(own).subspan(begin, part));
        for (std::size_t l = 0; l < layers.size(); ++l) {
          update(layers[l].weights, reducer.gradient(2 * l));
          update(layers[l].biases, reducer.gradient(2 * l + 1));
        }
      }
      dlaunch::all_reduce(Tensor::of(loss));
      if (rank == 0 && (epoch == 1 || epoch % 10 == 0))
        std::printf("epoch %2d: loss %.3f\n", static_cast<int>(epoch), static_cast<double>(loss[0] / points));
    }
    const dlaunch::ReducerStatistics statistics = reducer.statistics();
    if (rank == 0) {
      std::printf("%d ranks, %zu parameters in %zu buckets, %d steps\n", ranks, statistics.parameters,
                  statistics.bucket_bytes.size(), static_cast<int>(statistics.steps));
    }
    dlaunch::destroy_process_group();
    return EXIT_SUCCESS;
  } catch (const dlaunch::DistError& error) {
    std::fprintf(stderr, "data_parallel: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
