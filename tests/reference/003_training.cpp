// Document 003, distributed training: DataPartitioner, average_gradients and the SGD loop, with a line that
// is fitted in place of MNIST. Two ranks end with the same model, and with the loss falling on each.
#include <algorithm>
#include <cmath>
#include <random>

#include "tests/reference/printed.h"

using namespace reference;

namespace {

struct Sample {
  float x = 0;
  float y = 0;
};

// Dataset-like object: some of another's samples.
class Partition {
 public:
  Partition(const std::vector<Sample>& data, std::vector<std::size_t> index)
      : data_(data), index_(std::move(index)) {}
  [[nodiscard]] std::size_t size() const { return index_.size(); }
  const Sample& operator[](std::size_t i) const { return data_[index_[i]]; }

 private:
  const std::vector<Sample>& data_;
  std::vector<std::size_t> index_;
};

class DataPartitioner {
 public:
  explicit DataPartitioner(const std::vector<Sample>& data,
                           const std::vector<double>& sizes = {0.7, 0.2, 0.1}, unsigned seed = 1234)
      : data_(data) {
    std::vector<std::size_t> indexes(data.size());
    for (std::size_t i = 0; i < indexes.size(); ++i) indexes[i] = i;
    std::mt19937 rng(seed);
    std::shuffle(indexes.begin(), indexes.end(), rng);
    for (const double frac : sizes) {
      const auto part_len = static_cast<std::ptrdiff_t>(frac * static_cast<double>(data.size()));
      partitions_.emplace_back(indexes.begin(), indexes.begin() + part_len);
      indexes.erase(indexes.begin(), indexes.begin() + part_len);
    }
  }
  [[nodiscard]] Partition use(std::size_t partition) const { return {data_, partitions_.at(partition)}; }

 private:
  const std::vector<Sample>& data_;
  std::vector<std::vector<std::size_t>> partitions_;
};

struct Model {
  Floats parameters = {0, 0};  // y = a x + b
  Floats gradients = {0, 0};
};

// The loss of one batch; its gradients are in the model.
float backward(Model& model, const Partition& set, std::size_t begin, std::size_t end) {
  model.gradients = {0, 0};
  float loss = 0;
  const float count = static_cast<float>(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    const float error = model.parameters[0] * set[i].x + model.parameters[1] - set[i].y;
    loss += error * error / count;
    model.gradients[0] += 2 * error * set[i].x / count;
    model.gradients[1] += 2 * error / count;
  }
  return loss;
}

// Gradient averaging.
void average_gradients(Model& model) {
  const float size = static_cast<float>(dist::get_world_size());
  dist::all_reduce(dist::Tensor::of(model.gradients), dist::ReduceOp::sum);
  for (float& gradient : model.gradients) gradient /= size;
}

// Distributed synchronous SGD example.
void train(int rank, int size) {
  std::vector<Sample> dataset;
  for (int i = 0; i < 1000; ++i) {
    const float x = static_cast<float>(i) / 1000;
    dataset.push_back({x, 3 * x + 1});
  }
  const auto bsz = static_cast<std::size_t>(128 / size);
  const std::vector<double> partition_sizes(static_cast<std::size_t>(size), 1.0 / size);
  const Partition train_set = DataPartitioner(dataset, partition_sizes).use(static_cast<std::size_t>(rank));
  require(train_set.size() == 500, "half of the samples for each");
  Model model;
  std::vector<float> losses;
  for (int epoch = 0; epoch < 10; ++epoch) {
    float epoch_loss = 0;
    std::size_t num_batches = 0;
    for (std::size_t begin = 0; begin < train_set.size(); begin += bsz, ++num_batches) {
      epoch_loss += backward(model, train_set, begin, std::min(begin + bsz, train_set.size()));
      average_gradients(model);
      for (std::size_t i = 0; i < 2; ++i) model.parameters[i] -= 0.1F * model.gradients[i];
    }
    std::printf("Rank  %d , epoch  %d :  %f\n", rank, epoch,
                static_cast<double>(epoch_loss) / static_cast<double>(num_batches));
    losses.push_back(epoch_loss);
  }
  require(std::is_sorted(losses.rbegin(), losses.rend()), "the loss falls from epoch to epoch");
  std::vector<Floats> models(static_cast<std::size_t>(size), Floats(2));
  dist::all_gather(tensors(models), dist::Tensor::of(model.parameters));
  for (const Floats& other : models) require(other == model.parameters, "one model on all ranks");
}

}  // namespace

int main() { return run(train); }
