// The module of Python: makes a backend from a group that the package's Python has formed.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backend.h"
#include "group.h"

namespace py = pybind11;

namespace dlaunch::torch {
namespace {

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// A function of Python; empty: None.
using Function = std::shared_ptr<py::object>;

Function kept(const py::object& function) {
  if (function.is_none()) return nullptr;
  return {new py::object(function), [](py::object* object) {
            if (is_finalizing()) {
              (void)object->release();  // it stays until the process has ended
            } else {
              const py::gil_scoped_acquire lock;
              *object = py::object();
            }
            delete object;
          }};
}

Helpers helpers_of(const Function& name_caller, const Function& other_devices, const Function& split) {
  Helpers helpers;
  if (name_caller != nullptr) {
    helpers.name_caller = [name_caller] {
      if (PyGILState_GetThisThreadState() == nullptr) return;  // a thread of PyTorch's own has no line
      const py::gil_scoped_acquire lock;
      if (PyEval_GetFrame() != nullptr) (*name_caller)(0);
    };
  }
  if (other_devices != nullptr) {
    helpers.other_devices = [other_devices] {
      const py::gil_scoped_acquire lock;
      return (*other_devices)().cast<BackendPointer>();
    };
  }
  helpers.split = [split](const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                          int rank, int64_t timeout_ms, const std::string& name) {
    const py::gil_scoped_acquire lock;
    return (*split)(store, ranks, rank, timeout_ms, name).cast<BackendPointer>();
  };
  helpers.destroy = [](dlaunch_group* group) {
    // At the process's very end the library leaves its groups by itself.
    if (is_finalizing()) return;
    const auto end = [group] {
      dlaunch_destroy_group(group);
      dlaunch_group_free(group);
    };
    if (PyGILState_Check() == 0) return end();
    const py::gil_scoped_release unlocked;  // a store in Python may be needed
    end();
  };
  return helpers;
}

// A Backend, or a process group if the group has no other backend.
py::object make(std::uintptr_t group, int rank, std::vector<int> ranks, int64_t timeout_ms,
                c10::intrusive_ptr<c10d::Store> store, const py::object& name_caller,
                const py::object& other_devices, const py::object& split, bool is_alone) {
  GroupParts parts;
  parts.group = reinterpret_cast<dlaunch_group*>(group);  // a handle of ctypes
  parts.rank = rank;
  parts.ranks = std::move(ranks);
  parts.timeout = std::chrono::milliseconds(timeout_ms);
  parts.store = store;
  parts.helpers = helpers_of(kept(name_caller), kept(other_devices), kept(split));
  auto backend = c10::make_intrusive<Backend>(std::move(parts));
  if (!is_alone) return py::cast(BackendPointer(std::move(backend)));
  return py::cast(
      c10::intrusive_ptr<c10d::ProcessGroup>(c10::make_intrusive<Group>(store, std::move(backend))));
}

}  // namespace
}  // namespace dlaunch::torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.doc() = "PyTorch's backend dlaunch in C++; see dlaunch.torch.extension.";
  module.def("make", &dlaunch::torch::make);
}
