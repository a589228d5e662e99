// A double of the part of LibTorch that computes on GPUs, for programs with a LibTorch that has none: CUDA
// tensors lie in the memory of the CUDA double, copies run in its streams, and each operation is computed by
// the CPU from copies of its arguments. Streams are real: an operation reads what the current stream has
// done, and what another one has not done yet is not there. It belongs to a program that is linked with it.

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime_api.h>
#include <dlaunch/stream.h>
#include <torch/library.h>

#include <array>
#include <cstdint>
#include <vector>

namespace at {
namespace {

// The name is the one under which LibTorch looks for it.
struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs /*unused*/) {}
  void initCUDA() const override {}
  [[nodiscard]] bool hasCUDA() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(std::int64_t /*device*/) const override { return true; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);

}  // namespace
}  // namespace at

namespace {

constexpr int most_devices = 8;

void require(cudaError_t result, const char* call) {
  TORCH_CHECK(result == cudaSuccess, call, ": ", cudaGetErrorString(result));
}

c10::Device cuda(int index) { return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)}; }

int current_device() {
  int device = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

// The id of a stream is its handle; 0: the default stream.
thread_local std::array<c10::StreamId, most_devices> streams{};

cudaStream_t handle_of(c10::StreamId id) { return reinterpret_cast<cudaStream_t>(id); }
cudaStream_t current_stream() { return handle_of(streams.at(static_cast<std::size_t>(current_device()))); }

// As of LibTorch's allocator: what is freed is used again by work that comes later in its stream, at once,
// and after the work of other streams that have recorded it.
struct Allocator final : c10::Allocator {
  struct Block {
    void* memory;
    cudaStream_t stream;  // null: the default stream of
    int device;
    std::vector<cudaStream_t> also_used_in = {};
  };
  [[nodiscard]] c10::DataPtr allocate(std::size_t bytes) const override {
    if (bytes == 0) return {nullptr, cuda(current_device())};
    void* memory = nullptr;
    require(cudaMalloc(&memory, bytes), "cudaMalloc");
    return {memory, new Block{memory, current_stream(), current_device()}, free_block,
            cuda(current_device())};
  }
  static void free_block(void* context) {
    auto* const block = static_cast<Block*>(context);
    int before = 0;
    (void)cudaGetDevice(&before);
    (void)cudaSetDevice(block->device);
    for (const cudaStream_t other : block->also_used_in) {
      cudaEvent_t used = nullptr;
      (void)cudaEventCreateWithFlags(&used, cudaEventDisableTiming);
      (void)cudaEventRecord(used, other);
      (void)cudaStreamWaitEvent(block->stream, used, 0);
      (void)cudaEventDestroy(used);
    }
    (void)cudaFreeAsync(block->memory, block->stream);
    (void)cudaSetDevice(before);
    delete block;
  }
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  [[nodiscard]] c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  [[nodiscard]] c10::Device getDevice() const override { return cuda(current_device()); }
  void setDevice(c10::Device device) const override {
    require(cudaSetDevice(device.index()), "cudaSetDevice");
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { (void)cudaSetDevice(device.index()); }
  [[nodiscard]] c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, device, streams[static_cast<std::size_t>(device.index())]);
  }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::Stream before = getStream(stream.device());
    streams[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return before;
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<c10::DeviceIndex>(count)
                                                     : c10::DeviceIndex{0};
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    auto* made = static_cast<cudaEvent_t>(*event);
    if (made == nullptr) require(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreate");
    require(cudaEventRecord(made, handle_of(stream.id())), "cudaEventRecord");
    *event = made;
  }
  void block(void* event, const c10::Stream& stream) const override {
    require(cudaStreamWaitEvent(handle_of(stream.id()), static_cast<cudaEvent_t>(event), 0),
            "cudaStreamWaitEvent");
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    require(cudaStreamSynchronize(handle_of(stream.id())), "cudaStreamSynchronize");
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (auto* const block = static_cast<Allocator::Block*>(data.get_context()))
      block->also_used_in.push_back(handle_of(stream.id()));
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    (void)cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

Allocator allocator;

constexpr c10::DispatchKeySet keys(c10::DispatchKey::CUDA);

at::Tensor empty(at::IntArrayRef size, c10::optional<at::ScalarType> dtype,
                 c10::optional<at::Layout> /*layout*/, c10::optional<at::Device> device,
                 c10::optional<bool> /*pin*/, c10::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device.value_or(cuda(current_device())));
  return at::detail::empty_generic(size, &allocator, keys, dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::optional<at::ScalarType> dtype,
                         c10::optional<at::Layout> /*layout*/, c10::optional<at::Device> device,
                         c10::optional<bool> /*pin*/) {
  const c10::DeviceGuard guard(device.value_or(cuda(current_device())));
  return at::detail::empty_strided_generic(size, stride, &allocator, keys, dtype.value_or(at::kFloat));
}

// The bytes from its first element to the end of its last one.
std::size_t span_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(last + 1) * tensor.itemsize();
}

void copy_bytes(void* to, const void* from, std::size_t bytes, bool waits) {
  require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, current_stream()), "cudaMemcpyAsync");
  if (waits) require(cudaStreamSynchronize(current_stream()), "cudaStreamSynchronize");
}

// A CPU tensor with the same strides, and what is between its elements.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const c10::DeviceGuard guard(tensor.device());
  const at::Tensor host =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  if (const std::size_t bytes = span_of(tensor)) copy_bytes(host.data_ptr(), tensor.data_ptr(), bytes, true);
  return host;
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& from, bool /*non_blocking*/) {
  if (self.numel() == 0) return self;
  if (self.is_cpu()) return self.copy_(on_host(from));
  const c10::DeviceGuard guard(self.device());
  const bool is_equal_in_form = from.is_cuda() && from.dtype() == self.dtype() &&
                                from.sizes() == self.sizes() && from.strides() == self.strides() &&
                                self.is_non_overlapping_and_dense();
  if (is_equal_in_form) {
    copy_bytes(self.data_ptr(), from.data_ptr(), span_of(self), false);
    return self;
  }
  const at::Tensor host = on_host(self);
  host.copy_(on_host(from));
  copy_bytes(self.data_ptr(), host.data_ptr(), span_of(self), true);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  at::Tensor self = to;
  if (self.sizes() != from.sizes()) {
    TORCH_CHECK(self.is_cuda(), "the double resizes CUDA tensors only");
    at::Tensor other = at::empty(from.sizes(), self.options());
    self.unsafeGetTensorImpl()->set_storage_keep_dtype(other.storage());
    self.unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
  }
  return copy(self, from, false);
}

at::Tensor strided_view(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                        c10::optional<std::int64_t> offset) {
  const at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset.value_or(self.storage_offset()));
  return view;
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return strided_view(self, size, stride, c10::nullopt);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  std::vector<std::int64_t> wanted = size.vec();
  std::int64_t known = 1;
  for (const std::int64_t one : wanted) known *= one < 0 ? 1 : one;
  for (std::int64_t& one : wanted) one = one < 0 ? self.numel() / known : one;
  TORCH_CHECK(self.is_contiguous(), "the double has views of contiguous tensors only");
  std::vector<std::int64_t> strides(wanted.size());
  std::int64_t stride = 1;
  for (std::size_t i = wanted.size(); i-- > 0; stride *= wanted[i]) strides[i] = stride;
  return strided_view(self, wanted, strides, c10::nullopt);
}

at::Scalar first_value(const at::Tensor& self) { return on_host(self).item(); }

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("copy_", copy);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("as_strided", strided_view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("view", view);
  library.impl("_local_scalar_dense", first_value);
}

// All others.
TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&at::native::cpu_fallback>());
}

// As libdlaunch_torch does with a LibTorch that has CUDA.
const bool is_source = [] {
  dlaunch::set_stream_source(
      [](int device) { return dlaunch::Stream{handle_of(streams.at(static_cast<std::size_t>(device)))}; });
  return true;
}();

}  // namespace
