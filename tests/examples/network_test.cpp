#include "examples/train_mnist/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "examples/train_mnist/sgd.h"

namespace mnist {
namespace {

constexpr Widths small{pixels_per_image, 12, 9, classes};

// Noise with as many blanks as real images have.
Dataset noise(std::size_t count) {
  std::mt19937_64 random(7);
  Dataset data;
  for (std::size_t i = 0; i < count * pixels_per_image; ++i)
    data.pixels.push_back(random() % 5 == 0 ? static_cast<std::uint8_t>(random()) : std::uint8_t{0});
  for (std::size_t i = 0; i < count; ++i)
    data.labels.push_back(static_cast<std::uint8_t>(random() % classes));
  return data;
}

std::vector<std::uint32_t> all_of(const Dataset& data) {
  std::vector<std::uint32_t> indices(data.count());
  std::iota(indices.begin(), indices.end(), 0U);
  return indices;
}

// The same loss by another, slow and simple way, in double: independent of what is tested.
double reference_loss(std::span<const float> parameters, const Widths& widths, const Dataset& data) {
  double loss = 0;
  for (std::size_t image = 0; image < data.count(); ++image) {
    std::vector<double> in;
    for (const std::uint8_t pixel : data.image(image)) in.push_back(pixel / 255.0);
    std::size_t at = 0;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      std::vector<double> out(widths[l + 1]);
      for (std::size_t o = 0; o < out.size(); ++o) {
        out[o] = static_cast<double>(parameters[at + in.size() * out.size() + o]);
        for (std::size_t i = 0; i < in.size(); ++i)
          out[o] += in[i] * static_cast<double>(parameters[at + i * out.size() + o]);
        if (l + 2 < widths.size()) out[o] = std::max(out[o], 0.0);
      }
      at += (in.size() + 1) * out.size();
      in = out;
    }
    double sum = 0;
    for (const double score : in) sum += std::exp(score);
    loss += std::log(sum) - in[data.labels[image]];
  }
  return loss;
}

TEST(Network, loss_is_that_of_a_slow_reference) {
  const Dataset data = noise(5);
  Network network(small);
  network.initialise(3);
  std::vector<float> gradients(network.parameters().size());
  const double loss = network.add_gradients(data, all_of(data), gradients);
  EXPECT_NEAR(loss, reference_loss(network.parameters(), small, data), 1e-4);
}

TEST(Network, gradient_is_the_slope_of_the_loss) {
  const Dataset data = noise(3);
  Network network(small);
  network.initialise(3);
  const auto parameters = network.parameters();
  // Biases off zero, so that their gradients are tested at a point like any other.
  for (std::size_t i = 0; i < parameters.size(); i += 5) parameters[i] += 0.01F;
  std::vector<float> gradients(parameters.size());
  network.add_gradients(data, all_of(data), gradients);

  // Every parameter of the later layers, every 17th of the many of the first.
  const std::size_t first_layer = (small[0] + 1) * small[1];
  for (std::size_t i = 0; i < parameters.size(); i += i < first_layer ? 17 : 1) {
    constexpr float step = 1.0F / 4096;
    const float before = parameters[i];
    parameters[i] = before + step;
    const double above = reference_loss(parameters, small, data);
    parameters[i] = before - step;
    const double below = reference_loss(parameters, small, data);
    parameters[i] = before;
    const double slope = (above - below) / (2 * static_cast<double>(step));
    EXPECT_NEAR(static_cast<double>(gradients[i]), slope, 1e-3 + 1e-3 * std::abs(slope)) << "parameter " << i;
  }
}

TEST(Network, gradients_of_parts_add_up_to_that_of_the_whole) {
  const Dataset data = noise(8);
  Network network(small);
  network.initialise(1);
  const std::vector<std::uint32_t> indices = all_of(data);
  std::vector<float> whole(network.parameters().size());
  std::vector<float> parts(network.parameters().size());
  const double loss = network.add_gradients(data, indices, whole);
  double loss_of_parts = network.add_gradients(data, std::span(indices).first(3), parts);
  loss_of_parts += network.add_gradients(data, std::span(indices).subspan(3), parts);
  EXPECT_EQ(whole, parts);  // to the bit: images are added one by one, in order
  EXPECT_NEAR(loss, loss_of_parts, 1e-9);
}

TEST(Network, same_seed_same_bits) {
  Network a(small);
  Network b(small);
  a.initialise(5);
  b.initialise(5);
  EXPECT_TRUE(std::ranges::equal(a.parameters(), b.parameters()));
  b.initialise(6);
  EXPECT_FALSE(std::ranges::equal(a.parameters(), b.parameters()));
}

TEST(Network, first_weights_are_within_their_range_and_use_it) {
  Network network(small);
  network.initialise(1);
  const auto first = network.parameters().first(small[0] * small[1]);
  const float limit = std::sqrt(6.0F / static_cast<float>(small[0]));
  const auto [least, most] = std::minmax_element(first.begin(), first.end());
  EXPECT_GE(*least, -limit);
  EXPECT_LE(*most, limit);
  EXPECT_LT(*least, -0.99F * limit);
  EXPECT_GT(*most, 0.99F * limit);
}

TEST(Network, survives_huge_scores) {
  const Dataset data = noise(2);
  Network network(small);
  for (float& parameter : network.parameters()) parameter = 100;
  std::vector<float> gradients(network.parameters().size());
  EXPECT_TRUE(std::isfinite(network.add_gradients(data, all_of(data), gradients)));
  EXPECT_TRUE(std::ranges::all_of(gradients, [](float g) { return std::isfinite(g); }));
}

TEST(Network, learns_a_few_images_by_heart) {
  const Dataset data = noise(10);
  Network network(small);
  network.initialise(1);
  std::vector<float> velocity(network.parameters().size());
  for (int step = 0; step < 200; ++step) {
    std::vector<float> gradients(velocity.size());
    network.add_gradients(data, all_of(data), gradients);
    sgd_step(network.parameters(), velocity, gradients, 0.1F, 0.05F);
  }
  EXPECT_EQ(network.count_correct(data, 0, data.count()), data.count());
  EXPECT_EQ(network.count_correct(data, 3, 3), 0U);
}

TEST(Sgd, takes_the_step_by_hand) {
  std::vector<float> parameters{1, 2};
  std::vector<float> velocity{0, 10};
  const std::vector<float> gradients{4, 8};
  sgd_step(parameters, velocity, gradients, 0.25F, 0.5F);
  EXPECT_EQ(velocity, (std::vector<float>{1, 0.9F * 10 + 2}));
  EXPECT_EQ(parameters, (std::vector<float>{0.5F, 2 - 0.5F * 11}));
}

TEST(Sgd, rate_shrinks_by_epoch) {
  EXPECT_EQ(learning_rate(0.5F, 0), 0.5F);
  EXPECT_NEAR(learning_rate(0.5F, 2), 0.02F, 1e-6F);
}

}  // namespace
}  // namespace mnist
