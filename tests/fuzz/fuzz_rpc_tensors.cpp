// libFuzzer: tensors as another worker may send them, in the bytes of a call. The first byte is the number of
// those; the second how many bytes are a block.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/rpc_protocol/tensor_head.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::internal;

// As LibTorch's dtypes: some have no size.
std::size_t element_size(std::int8_t type) {
  constexpr std::size_t sizes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 0, 0, 0, 2};
  const auto number = static_cast<std::uint8_t>(type);  // negative ones are above all
  return number < std::size(sizes) ? sizes[number] : 0;
}

int device_count() { return 2; }

void check(const TensorBytes& tensor) {
  if (!tensor.head.is_defined) return;
  std::size_t bytes = element_size(tensor.head.type);
  require(tensor.head.device >= on_cpu && tensor.head.device < device_count());
  require(bytes > 0 && tensor.head.shape.size() <= 64);
  std::int64_t stride = 1;  // as LibTorch computes them
  for (const std::int64_t size : tensor.head.shape) {
    require(size >= 0);
    bytes *= static_cast<std::size_t>(size);
    require(!__builtin_mul_overflow(stride, std::max<std::int64_t>(size, 1), &stride));
  }
  require(tensor.elements.size == bytes);
  const std::string copy(tensor.elements.view());  // all can be read
  require(copy.size() == bytes);
}

void fuzz(FuzzInput input) {
  const int tensors = input.choice() % 8;
  const std::size_t in_block = std::size_t{input.choice()} * 1024;
  // In memory of their own: what is read beside them is found.
  const std::vector<char> front(input.text().begin(), input.text().end());
  const auto block = std::make_shared<std::vector<char>>(in_block);
  std::vector<codec::Block> blocks;
  if (in_block > 0) blocks.push_back({std::shared_ptr<const void>(block, block->data()), in_block});
  codec::Reader reader({front.data(), front.size()}, blocks);
  codec::Read read(reader);
  try {
    for (int i = 0; i < tensors; ++i) {
      const TensorBytes tensor = read_tensor(read, {element_size, device_count});
      check(tensor);
      TensorHead head = tensor.head;
      codec::Writer writer;
      codec::Write write(writer);
      write(head);
      const std::string bytes = writer.take();
      codec::Reader again(bytes);
      codec::Read read_again(again);
      TensorHead same;
      read_again(same);
      require(same == tensor.head && again.at_end());
    }
    (void)reader.at_end();
  } catch (const DistError&) {  // as expected
  }
}

}  // namespace
