#include "runtime/backends/mpi/mpi_types.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <mutex>
#include <utility>

#include "runtime/backends/mpi/mpi_error.h"
#include "runtime/backends/mpi/mpi_process.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

namespace {

constexpr std::size_t dtypes = static_cast<std::size_t>(last_dtype) + 1;
constexpr std::size_t ops = static_cast<std::size_t>(ReduceOp::premul_sum) + 1;

// MPI calls it as into[i] = from[i] op into[i], where `from` is of the lower ranks.
template <std::size_t Pair>
void combine(void* from, void* into, int* length, MPI_Datatype* /*type*/) {
  constexpr auto dtype = static_cast<DType>(Pair / ops);
  constexpr auto op = static_cast<ReduceOp>(Pair % ops);
  auto* const out = static_cast<std::byte*>(into);
  reduce_kernel(dtype, op)(out, static_cast<const std::byte*>(from), out, static_cast<std::size_t>(*length));
}

template <std::size_t... Pairs>
constexpr std::array<MPI_User_function*, sizeof...(Pairs)> functions(std::index_sequence<Pairs...> /*all*/) {
  return {combine<Pairs>...};
}

MPI_Op own_op(DType dtype, ReduceOp op) {
  static constexpr auto all = functions(std::make_index_sequence<dtypes * ops>());
  static std::mutex mutex;
  static std::array<MPI_Op, dtypes* ops> made = [] {
    std::array<MPI_Op, dtypes * ops> none{};
    none.fill(MPI_OP_NULL);
    return none;
  }();
  const std::size_t pair = static_cast<std::size_t>(dtype) * ops + static_cast<std::size_t>(op);
  const std::lock_guard lock(mutex);
  if (made[pair] == MPI_OP_NULL) {
    constexpr int commutes = 1;
    const MpiCallLock call;
    require_mpi(MPI_Op_create(all[pair], commutes, &made[pair]), "MPI_Op_create");
  }
  return made[pair];
}

MPI_Datatype two_bytes() {
  static const MPI_Datatype type = [] {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const MpiCallLock call;
    require_mpi(MPI_Type_contiguous(2, MPI_BYTE, &made), "MPI_Type_contiguous");
    require_mpi(MPI_Type_commit(&made), "MPI_Type_commit");
    return made;
  }();
  return type;
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return MPI_INT8_T;
    case DType::int16:
      return MPI_INT16_T;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::uint8:
    case DType::boolean:
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      return MPI_UINT8_T;
    case DType::float16:
    case DType::bfloat16:
      return two_bytes();
    case DType::float32:
    case DType::complex64:
      return MPI_FLOAT;
    case DType::float64:
    case DType::complex128:
      return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

bool has_own_arithmetic(DType dtype, ReduceOp op) {
  constexpr std::array unknown_to_mpi{DType::boolean, DType::float16, DType::bfloat16, DType::float8_e4m3,
                                      DType::float8_e5m2};
  if (std::ranges::find(unknown_to_mpi, dtype) != unknown_to_mpi.end()) return true;
  const bool is_real = dtype == DType::float32 || dtype == DType::float64;
  return is_real && (op == ReduceOp::min || op == ReduceOp::max);
}

MPI_Op op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return MPI_SUM;
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::band:
      return MPI_BAND;
    case ReduceOp::bor:
      return MPI_BOR;
    case ReduceOp::bxor:
      return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

// One of the type is all of them: blocks, and a remainder behind them.
MPI_Datatype type_of_bytes(std::size_t bytes) {
  constexpr std::size_t block = std::size_t{1} << 20U;
  const std::array<MPI_Aint, 2> places = {0, static_cast<MPI_Aint>(bytes / block * block)};
  const std::array<int, 2> lengths = {1, static_cast<int>(bytes % block)};
  MPI_Datatype one_block = MPI_DATATYPE_NULL;
  MPI_Datatype all_blocks = MPI_DATATYPE_NULL;
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  require_mpi(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &one_block), "MPI_Type_contiguous");
  require_mpi(MPI_Type_contiguous(static_cast<int>(bytes / block), one_block, &all_blocks),
              "MPI_Type_contiguous");
  const std::array<MPI_Datatype, 2> types = {all_blocks, MPI_BYTE};
  require_mpi(MPI_Type_create_struct(2, lengths.data(), places.data(), types.data(), &whole),
              "MPI_Type_create_struct");
  require_mpi(MPI_Type_commit(&whole), "MPI_Type_commit");
  (void)MPI_Type_free(&one_block);
  (void)MPI_Type_free(&all_blocks);
  return whole;
}

}  // namespace

MpiArithmetic mpi_arithmetic(DType dtype, ReduceOp op) {
  const std::size_t units = dtype == DType::complex64 || dtype == DType::complex128 ? 2 : 1;
  return {type_of(dtype), has_own_arithmetic(dtype, op) ? own_op(dtype, op) : op_of(op), units};
}

bool is_of_mpi_alone(DType dtype, ReduceOp op) {
  return !has_own_arithmetic(dtype, op) && op != ReduceOp::avg && op != ReduceOp::premul_sum;
}

MpiBytes::MpiBytes(std::size_t bytes) : count_(static_cast<int>(bytes)) {
  if (bytes <= INT_MAX) return;
  const MpiCallLock call;
  type_ = type_of_bytes(bytes);
  count_ = 1;
}

MpiBytes::~MpiBytes() {
  if (type_ == MPI_BYTE) return;
  const MpiCallLock call;
  (void)MPI_Type_free(&type_);
}

// MPI_Get_count takes less time, but has no number for more than an int counts.
std::size_t received_bytes(const MPI_Status& status, std::size_t wanted) {
  const MpiCallLock lock;
  if (wanted > INT_MAX) {
    MPI_Count received = 0;
    require_mpi(MPI_Get_elements_x(&status, MPI_BYTE, &received), "MPI_Get_elements_x");
    return static_cast<std::size_t>(received);
  }
  int received = 0;
  require_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  return static_cast<std::size_t>(received);
}

}  // namespace dlaunch::internal
