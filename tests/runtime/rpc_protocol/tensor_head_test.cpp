#include "runtime/rpc_protocol/tensor_head.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "dlaunch/error.h"

namespace dlaunch::internal {
namespace {

constexpr std::int8_t floats = 6;
std::size_t size_of(std::int8_t type) { return type == floats ? sizeof(float) : 0; }
int two_devices() { return 2; }

std::string written(TensorHead head, const std::string& elements) {
  codec::Writer writer;
  codec::Write write(writer);
  write(head);
  return writer.take() + elements;
}
TensorBytes read_from(const std::string& bytes) {
  codec::Reader reader(bytes);
  codec::Read read(reader);
  return read_tensor(read, {size_of, two_devices});
}
std::string error_of(const TensorHead& head, const std::string& elements = "") {
  try {
    (void)read_from(written(head, elements));
  } catch (const DistError& e) {
    return e.what();
  }
  return "none";
}
TensorHead of_shape(std::vector<std::int64_t> shape) { return {true, floats, on_cpu, std::move(shape), {}}; }

TEST(TensorHead, ElementsAreThoseOfTheShape) {
  TensorHead head = of_shape({2, 3});
  head.link = TensorLink{1, 2, 3, 4, 5};
  head.device = 1;
  const std::string elements(24, 'x');
  const std::string bytes = written(head, elements + "rest");
  const TensorBytes tensor = read_from(bytes);
  EXPECT_EQ(tensor.head, head);
  EXPECT_EQ(tensor.elements.view(), elements);
  EXPECT_EQ(read_from(written(of_shape({}), "1234")).elements.size, 4U);
}

TEST(TensorHead, LongElementsAreInABlock) {
  const auto memory = std::make_shared<std::string>(codec::shortest_block, 'x');
  TensorHead head = of_shape({static_cast<std::int64_t>(codec::shortest_block / sizeof(float))});
  const std::string front = written(head, "");
  const codec::Block block{std::shared_ptr<const void>(memory, memory->data()), memory->size()};
  const auto read_with = [&](std::vector<codec::Block> blocks) {
    codec::Reader reader(front, std::move(blocks));
    codec::Read read(reader);
    return read_tensor(read, {size_of, two_devices});
  };
  EXPECT_EQ(read_with({block}).elements.data.get(), memory->data());
  EXPECT_THROW((void)read_with({}), DistError);
  EXPECT_THROW((void)read_with({{block.data, block.size - 1}}), DistError);
}

TEST(TensorHead, UndefinedOnesHaveNoElements) {
  EXPECT_EQ(read_from(written({}, "abc")).elements.size, 0U);
  TensorHead head;
  head.link = TensorLink{};
  EXPECT_NE(error_of(head).find("undefined, and has a gradient"), std::string::npos);
}

TEST(TensorHead, ShapesThatCannotBe) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{-1},
                                                 {2, -3},
                                                 {std::numeric_limits<std::int64_t>::min()},
                                                 {most, most, 4},
                                                 {std::int64_t{1} << 32, std::int64_t{1} << 32},
                                                 {most, 0},
                                                 {0, most, most}}) {
    EXPECT_NE(error_of(of_shape(shape), std::string(64, 'x')).find("a shape that cannot be"),
              std::string::npos);
  }
  EXPECT_NE(error_of(of_shape(std::vector<std::int64_t>(65, 1)), "1234").find("too many dimensions"),
            std::string::npos);
  EXPECT_EQ(error_of(of_shape(std::vector<std::int64_t>(64, 1)), "1234"), "none");
  EXPECT_EQ(error_of(of_shape({3, 0, 5})), "none");
}

TEST(TensorHead, TooFewElements) {
  EXPECT_NE(error_of(of_shape({2, 3}), std::string(23, 'x')).find("ends too early"), std::string::npos);
  EXPECT_NE(error_of(of_shape({std::int64_t{1} << 48}), "1234").find("ends too early"), std::string::npos);
}

TEST(TensorHead, DevicesThatAreNotHere) {
  TensorHead head = of_shape({0});
  for (const int device : {-32768, -2, 2, 32767}) {
    head.device = static_cast<std::int16_t>(device);
    EXPECT_NE(
        error_of(head).find("for device " + std::to_string(device) + ", and this worker has so many: 2"),
        std::string::npos);
  }
  head.device = 0;
  EXPECT_EQ(error_of(head), "none");
}

TEST(TensorHead, UnknownDtypesAndWorkers) {
  for (const int type : {-128, -1, 5, 7, 127}) {
    TensorHead head = of_shape({0});
    head.type = static_cast<std::int8_t>(type);
    EXPECT_NE(error_of(head).find("unknown dtype"), std::string::npos) << type;
  }
  TensorHead head = of_shape({0});
  head.link = TensorLink{.worker = -1};
  EXPECT_NE(error_of(head).find("no worker"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::internal
