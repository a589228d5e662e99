// The values of the conformance test on a CUDA device.

#include <cuda_runtime_api.h>

#include <map>

#include "tests/runtime/api/conformance_placement.h"
#include "tests/runtime/cuda/device_values.h"
#include "tests/runtime/cuda/test_devices.h"

namespace {

using Values = dlaunch::test::DeviceValues<unsigned char>;

class OnDevice final : public Placement {
 public:
  explicit OnDevice(int device) : device_(device) {
    (void)cudaSetDevice(device);  // without one, init_process_group says what is missing
  }

  void* place(void* values, std::size_t bytes) override {
    auto* const begin = static_cast<unsigned char*>(values);
    for (const auto& [its_begin, copy] : copies_) {
      if (begin >= its_begin && begin + bytes <= its_begin + copy.bytes) {
        return copy.values->data() + (begin - its_begin);
      }
    }
    Copy& copy = copies_[begin];
    copy.bytes = bytes;
    copy.values = std::make_unique<Values>(std::vector<unsigned char>(begin, begin + bytes));
    return copy.values->data();
  }

  // The calls have been ordered before the default stream.
  void fetch() override {
    for (const auto& [begin, copy] : copies_) {
      const std::vector<unsigned char> values = copy.values->get();
      std::copy(values.begin(), values.end(), begin);
    }
    forget();
  }

  void forget() override { copies_.clear(); }
  [[nodiscard]] dlaunch::Device device() const override { return {dlaunch::Device::Kind::cuda, device_}; }

 private:
  struct Copy {
    std::size_t bytes = 0;
    std::unique_ptr<Values> values;
  };
  int device_;
  std::map<unsigned char*, Copy> copies_;
};

}  // namespace

std::unique_ptr<Placement> device_placement(int rank) {
  return std::make_unique<OnDevice>(dlaunch::test::device_of(rank));
}
