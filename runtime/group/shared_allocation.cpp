// Memory for the program's tensors.
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/shared_memory.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/group/group_impl.h"

namespace dlaunch::internal {

namespace {

std::shared_ptr<std::byte> own_memory(std::size_t size) {
  constexpr std::align_val_t alignment{4096};
  void* const begin = ::operator new(size, alignment, std::nothrow);
  if (begin == nullptr) throw DistBackendError("there is no memory for " + std::to_string(size) + " bytes");
  std::memset(begin, 0, size);
  return {static_cast<std::byte*>(begin), [](std::byte* at) { ::operator delete(at, alignment); }};
}

}  // namespace

SharedMemory GroupImpl::allocate_shared(std::size_t size) {
  constexpr const char* name = "allocate_shared";
  if (size == 0) return {};
  std::string why = "this rank is not a member of the group";
  try {
    if (description_.rank >= 0) {
      const std::shared_ptr<Backend> backend = usable_backend(name, Device{});
      if (std::shared_ptr<std::byte> memory = backend->allocate_shared(size, why))
        return {std::move(memory), size, true};
    }
    if (logs(LogLevel::info)) {
      log(LogLevel::info, "allocate_shared of " + std::to_string(size) + " bytes for group " +
                              description_.name + " returns memory that is not shared, since " + why);
    }
    return {own_memory(size), size, false};
  } catch (...) {
    std::rethrow_exception(located(std::current_exception(), {.operation = name}));
  }
}

}  // namespace dlaunch::internal
