#include "runtime/api/c_api.h"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/distributed.h"

namespace {

using dlaunch::CollectiveOptions;
using dlaunch::DistError;
using dlaunch::DType;
using dlaunch::ProcessGroup;
using dlaunch::ReduceOp;
using dlaunch::Tensor;
using dlaunch::Work;

// C and C++ use the same numbers.
static_assert(static_cast<int>(DType::int8) == DLAUNCH_INT8);
static_assert(static_cast<int>(DType::boolean) == DLAUNCH_BOOL);
static_assert(static_cast<int>(DType::complex128) == DLAUNCH_COMPLEX128);
static_assert(static_cast<int>(dlaunch::last_dtype) == DLAUNCH_FLOAT8_E5M2);
static_assert(static_cast<int>(ReduceOp::sum) == DLAUNCH_SUM);
static_assert(static_cast<int>(ReduceOp::bxor) == DLAUNCH_BXOR);
static_assert(dlaunch::any_source == DLAUNCH_ANY_SOURCE);

thread_local std::string last_error;
thread_local dlaunch::ErrorContext last_context;
thread_local std::string last_text;

int note_failure(int status, const char* message, const dlaunch::ErrorContext& context) noexcept {
  try {
    last_error = message;
    last_context = context;
  } catch (...) {  // no memory for the message
    last_error.clear();
    last_context = {};
  }
  return status;
}

}  // namespace

namespace dlaunch::internal::c {

int note_current_failure() noexcept {
  try {
    throw;
  } catch (const DistBackendError& e) {
    return note_failure(DLAUNCH_ERROR_BACKEND, e.what(), e.context());
  } catch (const DistNetworkError& e) {
    return note_failure(DLAUNCH_ERROR_NETWORK, e.what(), e.context());
  } catch (const DistStoreError& e) {
    return note_failure(DLAUNCH_ERROR_STORE, e.what(), e.context());
  } catch (const DistError& e) {
    return note_failure(DLAUNCH_ERROR, e.what(), e.context());
  } catch (const std::exception& e) {
    return note_failure(DLAUNCH_ERROR_INTERNAL, e.what(), {});
  } catch (...) {
    return note_failure(DLAUNCH_ERROR_INTERNAL, "an exception of an unknown type", {});
  }
}

Tensor tensor_of(const dlaunch_tensor* given) {
  const dlaunch_tensor& t = required(given, "a tensor");
  if (t.dtype < DLAUNCH_INT8 || t.dtype > DLAUNCH_FLOAT8_E5M2) {
    throw DistError(std::to_string(t.dtype) + " is not a dtype");
  }
  if (t.device != DLAUNCH_CPU && t.device != DLAUNCH_CUDA) {
    throw DistError(std::to_string(t.device) + " is not a device");
  }
  if (t.dims > 0) (void)required(t.shape, "a tensor's shape");
  const dlaunch::Device device{
      t.device == DLAUNCH_CPU ? dlaunch::Device::Kind::cpu : dlaunch::Device::Kind::cuda, t.device_index};
  return Tensor(t.data, static_cast<DType>(t.dtype), std::span(t.shape, t.dims), device);
}

ProcessGroup group_of(const dlaunch_group* group) { return group ? group->group : default_group(); }

std::optional<std::chrono::milliseconds> timeout_of(std::int64_t ms) {
  return ms == 0 ? std::nullopt : std::optional(std::chrono::milliseconds(ms));
}

const char* keep_text(std::string text) {
  last_text = std::move(text);
  return last_text.c_str();
}

}  // namespace dlaunch::internal::c

namespace {

using namespace dlaunch::internal::c;

std::vector<Tensor> tensors_of(const dlaunch_tensor* list, std::size_t count) {
  if (count > 0) (void)required(list, "a list of tensors");
  std::vector<Tensor> tensors;
  tensors.reserve(count);
  for (std::size_t i = 0; i < count; ++i) tensors.push_back(tensor_of(&list[i]));
  return tensors;
}

ReduceOp op_of(int op) {
  if (op < DLAUNCH_SUM || op > DLAUNCH_BXOR) throw DistError(std::to_string(op) + " is not a reduction");
  return static_cast<ReduceOp>(op);
}

CollectiveOptions options_of(const dlaunch_group* group, std::int64_t timeout_ms, dlaunch_work** work) {
  CollectiveOptions options;
  options.async_op = work != nullptr;
  options.timeout = timeout_of(timeout_ms);
  options.group = group_of(group);
  return options;
}

CollectiveOptions premul_options(double factor, const dlaunch_group* group, std::int64_t timeout_ms,
                                 dlaunch_work** work) {
  CollectiveOptions options = options_of(group, timeout_ms, work);
  options.premul_factor = factor;
  return options;
}

void give(dlaunch_work** work, Work result, ProcessGroup group = {}) {
  if (work) *work = new dlaunch_work{std::move(result), std::move(group)};
}

}  // namespace

const char* dlaunch_last_error() { return last_error.c_str(); }
void dlaunch_last_error_context(dlaunch_error_context* context) {
  if (!context) return;
  *context = {last_context.rank,     last_context.operation.c_str(),
              last_context.sequence, last_context.group.c_str(),
              last_context.peer,     last_context.host.c_str()};
}

int dlaunch_init_process_group(const dlaunch_init_options* given) {
  return guarded([&] {
    dlaunch::InitOptions options;
    if (given) {
      if (given->backend) options.backend = given->backend;
      if (given->group_name) options.group_name = given->group_name;
      if (given->init_method) options.init_method = given->init_method;
      if (given->store) options.store = given->store->store;
      if (given->timeout_ms != 0) options.timeout = std::chrono::milliseconds(given->timeout_ms);
      if (given->world_size != 0) {  // else neither is given
        options.rank = given->rank;
        options.world_size = given->world_size;
      }
    }
    dlaunch::init_process_group(options);
  });
}

int dlaunch_destroy_process_group() {
  return guarded([] { dlaunch::destroy_process_group(); });
}
int dlaunch_is_initialized() { return dlaunch::is_initialized() ? 1 : 0; }
int dlaunch_all_reduce(const dlaunch_tensor* tensor, int op, const dlaunch_group* group, int64_t timeout_ms,
                       dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::all_reduce(tensor_of(tensor), op_of(op), options_of(group, timeout_ms, work)));
  });
}
int dlaunch_all_reduce_premul_sum(const dlaunch_tensor* tensor, double factor, const dlaunch_group* group,
                                  int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::all_reduce(tensor_of(tensor), ReduceOp::premul_sum,
                                   premul_options(factor, group, timeout_ms, work)));
  });
}
int dlaunch_all_reduce_coalesced(const dlaunch_tensor* tensors, size_t count, int op,
                                 const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::all_reduce_coalesced(tensors_of(tensors, count), op_of(op),
                                             options_of(group, timeout_ms, work)));
  });
}
int dlaunch_broadcast(const dlaunch_tensor* tensor, int src, const dlaunch_group* group, int64_t timeout_ms,
                      dlaunch_work** work) {
  return guarded(
      [&] { give(work, dlaunch::broadcast(tensor_of(tensor), src, options_of(group, timeout_ms, work))); });
}
int dlaunch_reduce(const dlaunch_tensor* tensor, int dst, int op, const dlaunch_group* group,
                   int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::reduce(tensor_of(tensor), dst, op_of(op), options_of(group, timeout_ms, work)));
  });
}
int dlaunch_reduce_premul_sum(const dlaunch_tensor* tensor, int dst, double factor,
                              const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::reduce(tensor_of(tensor), dst, ReduceOp::premul_sum,
                               premul_options(factor, group, timeout_ms, work)));
  });
}
int dlaunch_all_gather(const dlaunch_tensor* outputs, size_t count, const dlaunch_tensor* input,
                       const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::all_gather(tensors_of(outputs, count), tensor_of(input),
                                   options_of(group, timeout_ms, work)));
  });
}
int dlaunch_all_gather_into_tensor(const dlaunch_tensor* output, const dlaunch_tensor* input,
                                   const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::all_gather_into_tensor(tensor_of(output), tensor_of(input),
                                               options_of(group, timeout_ms, work)));
  });
}
int dlaunch_gather(const dlaunch_tensor* outputs, size_t count, const dlaunch_tensor* input, int dst,
                   const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::gather(tensors_of(outputs, count), tensor_of(input), dst,
                               options_of(group, timeout_ms, work)));
  });
}
int dlaunch_scatter(const dlaunch_tensor* output, const dlaunch_tensor* inputs, size_t count, int src,
                    const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::scatter(tensor_of(output), tensors_of(inputs, count), src,
                                options_of(group, timeout_ms, work)));
  });
}
int dlaunch_reduce_scatter(const dlaunch_tensor* output, const dlaunch_tensor* inputs, size_t count, int op,
                           const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::reduce_scatter(tensor_of(output), tensors_of(inputs, count), op_of(op),
                                       options_of(group, timeout_ms, work)));
  });
}
int dlaunch_reduce_scatter_tensor(const dlaunch_tensor* output, const dlaunch_tensor* input, int op,
                                  const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::reduce_scatter_tensor(tensor_of(output), tensor_of(input), op_of(op),
                                              options_of(group, timeout_ms, work)));
  });
}
int dlaunch_reduce_scatter_premul_sum(const dlaunch_tensor* output, const dlaunch_tensor* inputs,
                                      size_t count, double factor, const dlaunch_group* group,
                                      int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::reduce_scatter(tensor_of(output), tensors_of(inputs, count), ReduceOp::premul_sum,
                                       premul_options(factor, group, timeout_ms, work)));
  });
}
int dlaunch_reduce_scatter_tensor_premul_sum(const dlaunch_tensor* output, const dlaunch_tensor* input,
                                             double factor, const dlaunch_group* group, int64_t timeout_ms,
                                             dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::reduce_scatter_tensor(tensor_of(output), tensor_of(input), ReduceOp::premul_sum,
                                              premul_options(factor, group, timeout_ms, work)));
  });
}
int dlaunch_all_gather_into_tensor_coalesced(const dlaunch_tensor* outputs, const dlaunch_tensor* inputs,
                                             size_t count, const dlaunch_group* group, int64_t timeout_ms,
                                             dlaunch_work** work) {
  return guarded([&] {
    give(work,
         dlaunch::all_gather_into_tensor_coalesced(tensors_of(outputs, count), tensors_of(inputs, count),
                                                   options_of(group, timeout_ms, work)));
  });
}
int dlaunch_reduce_scatter_tensor_coalesced(const dlaunch_tensor* outputs, const dlaunch_tensor* inputs,
                                            size_t count, int op, const dlaunch_group* group,
                                            int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::reduce_scatter_tensor_coalesced(tensors_of(outputs, count), tensors_of(inputs, count),
                                                        op_of(op), options_of(group, timeout_ms, work)));
  });
}
int dlaunch_all_to_all(const dlaunch_tensor* outputs, const dlaunch_tensor* inputs, size_t count,
                       const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    give(work, dlaunch::all_to_all(tensors_of(outputs, count), tensors_of(inputs, count),
                                   options_of(group, timeout_ms, work)));
  });
}
int dlaunch_all_to_all_single(const dlaunch_tensor* output, const dlaunch_tensor* input,
                              const int64_t* output_splits, const int64_t* input_splits,
                              const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    const CollectiveOptions options = options_of(group, timeout_ms, work);
    const std::size_t size = static_cast<std::size_t>(options.group.size());
    const auto splits = [size](const int64_t* given) {
      return given ? std::span(given, size) : std::span<const int64_t>();
    };
    give(work, dlaunch::all_to_all_single(tensor_of(output), tensor_of(input), splits(output_splits),
                                          splits(input_splits), options));
  });
}
int dlaunch_barrier(const dlaunch_group* group, int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] { give(work, dlaunch::barrier(options_of(group, timeout_ms, work))); });
}
int dlaunch_monitored_barrier(const dlaunch_group* group, int64_t timeout_ms, int wait_all_ranks) {
  return guarded([&] { group_of(group).monitored_barrier(timeout_of(timeout_ms), wait_all_ranks != 0); });
}

int dlaunch_send(const dlaunch_tensor* tensor, int dst, uint32_t tag, const dlaunch_group* group,
                 int64_t timeout_ms, dlaunch_work** work) {
  return guarded([&] {
    const Work sent =
        dlaunch::isend(tensor_of(tensor), dst, {{tag, timeout_of(timeout_ms)}, group_of(group)});
    if (work) return give(work, sent);
    sent.wait();
  });
}
int dlaunch_recv(const dlaunch_tensor* tensor, int src, uint32_t tag, const dlaunch_group* group,
                 int64_t timeout_ms, int* source, dlaunch_work** work) {
  return guarded([&] {
    const ProcessGroup in = group_of(group);
    const Work received = dlaunch::irecv(tensor_of(tensor), src, {{tag, timeout_of(timeout_ms)}, in});
    if (work) return give(work, received, in);
    received.wait();
    const int from = received.source_rank();
    if (source) *source = from < 0 ? -1 : dlaunch::get_global_rank(in, from);
  });
}

int dlaunch_batch_isend_irecv(const dlaunch_p2p_op* ops, size_t count, const dlaunch_group* group,
                              dlaunch_work** works) {
  return guarded([&] {
    if (count == 0) return;
    (void)required(ops, "the list of operations");
    (void)required(works, "the list of works");
    std::vector<dlaunch::P2POp> all;
    for (const dlaunch_p2p_op& op : std::span(ops, count)) {
      if (op.kind != DLAUNCH_ISEND && op.kind != DLAUNCH_IRECV) {
        throw DistError(std::to_string(op.kind) + " is neither DLAUNCH_ISEND nor DLAUNCH_IRECV");
      }
      all.push_back({op.kind == DLAUNCH_ISEND ? dlaunch::P2POp::Kind::isend : dlaunch::P2POp::Kind::irecv,
                     tensor_of(&op.tensor), op.peer, op.tag});
    }
    const ProcessGroup in = group_of(group);
    std::vector<std::unique_ptr<dlaunch_work>> handles;  // before anything is started that needs one
    for (std::size_t i = 0; i < count; ++i) handles.push_back(std::make_unique<dlaunch_work>());
    const std::vector<Work> started = dlaunch::batch_isend_irecv(all, in);
    for (std::size_t i = 0; i < count; ++i) {
      handles[i]->work = started[i];
      handles[i]->group = in;
      works[i] = handles[i].release();
    }
  });
}

int dlaunch_work_wait(const dlaunch_work* work, int64_t timeout_ms) {
  return guarded([&] {
    const Work& waited = required(work, "the work").work;
    if (timeout_ms == 0) return waited.wait();
    waited.wait(std::chrono::milliseconds(timeout_ms));
  });
}
int dlaunch_work_is_completed(const dlaunch_work* work) { return !work || work->work.is_completed() ? 1 : 0; }
int dlaunch_work_is_success(const dlaunch_work* work) { return work && work->work.is_success() ? 1 : 0; }
int dlaunch_work_source_rank(const dlaunch_work* work) {
  return answer(-1, [&] {
    const int source = required(work, "the work").work.source_rank();
    return source < 0 ? -1 : dlaunch::get_global_rank(work->group, source);
  });
}
void dlaunch_work_free(dlaunch_work* work) { delete work; }
