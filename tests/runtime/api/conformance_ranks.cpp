// One side of the conformance test (conformance_test.py): every cell of its table on our runtime. Writes what
// each rank has in the end to DIRECTORY/rank<N> (conformance_values.h).
//
//   conformance_ranks DIRECTORY WORLD_SIZE [BACKEND]
//   conformance_device_ranks DIRECTORY WORLD_SIZE BACKEND   on CUDA devices
//
// Starts the ranks itself, or is one of them if a launcher has given it a rank. If that is MPI's, the backend
// is mpi.

#include <dlaunch/distributed.h>
#include <dlaunch/object.h>
#include <dlaunch/spawn.h>

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "tests/runtime/api/conformance_values.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::ReduceOp;
using dlaunch::Tensor;

const std::vector<std::size_t> short_counts = {0, 1, 7, 1000, 8193};
// Of the calls that are more of the same.
const std::vector<std::size_t> fewer_counts = {0, 7, 1000};
// Some MiB, for most dtypes where there are few ranks, and else for those that are used most.
constexpr std::size_t long_count = 300'007;
constexpr std::size_t longest_count = 1'000'003;
constexpr int few_ranks = 3;

using Operations = std::vector<std::pair<ReduceOp, std::string>>;

template <class T>
Operations operations_of() {
  Operations operations = {{ReduceOp::sum, "sum"}};
  if constexpr (!is_complex<T>) {
    operations.insert(operations.end(),
                      {{ReduceOp::product, "product"}, {ReduceOp::min, "min"}, {ReduceOp::max, "max"}});
  }
  if (std::is_integral_v<T> && !is_nccl) {
    operations.insert(operations.end(),
                      {{ReduceOp::band, "band"}, {ReduceOp::bor, "bor"}, {ReduceOp::bxor, "bxor"}});
  }
  return operations;
}

// The others PyTorch's gloo only sends and receives. (float8 it does not reduce either: these cells compare
// our backends.)
template <class T>
constexpr bool has_collectives =
    !std::is_same_v<T, std::int16_t> && !std::is_same_v<T, Truth> && !std::is_same_v<T, dlaunch::BFloat16>;

// The cells of one dtype and length.
template <class T>
class Cells {
 public:
  Cells(Records& records, std::string dtype, std::size_t count, int rank, int size)
      : records_(records),
        dtype_(std::move(dtype)),
        count_(count),
        ranks_(static_cast<std::size_t>(size)),
        rank_(rank),
        size_(size) {}

  void main_collectives() {
    for (const auto& [op, name] : operations_of<T>()) {
      start("all_reduce/" + name);
      std::vector<T> values = own();
      dlaunch::all_reduce(view(values), op);
      records_.put(values);
    }
    if constexpr (!std::is_integral_v<T>) {
      start("all_reduce/sum-of-thirds");
      std::vector<T> rounded = values_of<T>(rank_, count_, true);
      dlaunch::all_reduce(view(rounded));
      records_.put(rounded);
    }
    reduce(ReduceOp::sum, "sum");

    start("broadcast");
    std::vector<T> values = own();
    dlaunch::broadcast(view(values), size_ / 2);
    records_.put(values);

    start("all_gather");
    values = own();
    std::vector<T> all(ranks_ * count_);
    dlaunch::all_gather(cut(all, ranks_), view(values));
    records_.put(all);

    start("gather");
    std::vector<T> gathered(rank_ == 0 ? all.size() : 0);
    dlaunch::gather(cut(gathered, rank_ == 0 ? ranks_ : 0), view(values), 0);
    if (rank_ == 0) records_.put(gathered);

    start("scatter");
    std::vector<T> scattered(count_);
    dlaunch::scatter(view(scattered), cut(all, rank_ == 0 ? ranks_ : 0), 0);
    records_.put(scattered);

    start("all_to_all_single");
    std::vector<T> table = of_all_ranks();
    std::vector<T> turned(table.size());
    dlaunch::all_to_all_single(view(turned), view(table));
    records_.put(turned);
  }

  void other_collectives() {
    for (const auto& [op, name] : operations_of<T>()) {
      if (op != ReduceOp::sum) reduce(op, name);
      all_reduce_coalesced(op, name);
      reduce_scatter(op, name);
    }

    start("all_gather_into_tensor");
    std::vector<T> values = own();
    std::vector<T> all(ranks_ * count_);
    dlaunch::all_gather_into_tensor(view(all), view(values));
    records_.put(all);

    start("all_gather_coalesced");
    std::vector<T> second = own_second();
    std::vector<T> all_second(ranks_ * second.size());
    const std::vector<Tensor> outputs = {view(all), view(all_second)};
    const std::vector<Tensor> inputs = {view(values), view(second)};
    dlaunch::all_gather_into_tensor_coalesced(outputs, inputs);
    records_.put(joined(all, all_second));

    start("all_to_all");
    std::vector<T> table = of_all_ranks();
    std::vector<T> turned(table.size());
    dlaunch::all_to_all(cut(turned, ranks_), cut(table, ranks_));
    records_.put(turned);

    start("all_to_all_single/splits");
    std::vector<std::int64_t> to;
    std::vector<std::int64_t> from;
    for (int peer = 0; peer < size_; ++peer) {
      to.push_back(split(rank_, peer));
      from.push_back(split(peer, rank_));
    }
    table = values_of<T>(rank_, std::accumulate(to.begin(), to.end(), std::size_t{0}));
    turned.resize(std::accumulate(from.begin(), from.end(), std::size_t{0}));
    dlaunch::all_to_all_single(view(turned), view(table), from, to);
    records_.put(turned);
  }

  void main_messages() {
    start("isend/recv");
    std::vector<T> values = own();
    std::vector<T> received(count_);
    const dlaunch::Work sent = dlaunch::isend(view(values), next());
    dlaunch::recv(view(received), previous());
    sent.wait();
    records_.put(received);
  }

  void other_messages() {
    std::vector<T> values = own();

    start("send/recv");
    std::vector<T> received(count_);
    const bool sends_first = rank_ % 2 == 0;  // a send may wait for its receiver
    if (sends_first) dlaunch::send(view(values), next());
    dlaunch::recv(view(received), previous());
    if (!sends_first) dlaunch::send(view(values), next());
    records_.put(received);

    if (!is_nccl) receive_from_any(values);

    start("batch_isend_irecv");
    received.assign(count_, T());
    const std::vector<dlaunch::P2POp> batch = {
        {.kind = dlaunch::P2POp::Kind::isend, .tensor = view(values), .peer = next()},
        {.kind = dlaunch::P2POp::Kind::irecv, .tensor = view(received), .peer = previous()}};
    for (const dlaunch::Work& work : dlaunch::batch_isend_irecv(batch)) work.wait();
    records_.put(received);
  }

 private:
  void receive_from_any(std::vector<T>& values) {
    start("recv/any");
    std::vector<T> received(count_);
    const dlaunch::Work sent = dlaunch::isend(view(values), next());
    dlaunch::recv(view(received));
    sent.wait();
    records_.put(received);
  }

  void start(const std::string& call) { records_.start(call, dtype_, count_); }

  [[nodiscard]] int next() const { return (rank_ + 1) % size_; }
  [[nodiscard]] int previous() const { return (rank_ + size_ - 1) % size_; }
  // How many values go from one rank to another where that is not the same for all: for some pairs none.
  [[nodiscard]] std::int64_t split(int from, int to) const {
    return static_cast<std::int64_t>(count_) * ((from + 2 * to + 1) % 3);
  }

  [[nodiscard]] std::vector<T> own() const { return values_of<T>(rank_, count_); }
  // Another length and other values, for calls that take several.
  [[nodiscard]] std::vector<T> own_second() const { return values_of<T>(rank_ + size_, 2 * count_); }
  [[nodiscard]] std::vector<T> of_all_ranks() const { return values_of<T>(rank_, ranks_ * count_); }
  [[nodiscard]] static std::vector<T> joined(const std::vector<T>& first, const std::vector<T>& second) {
    if (placement != nullptr) placement->fetch();
    std::vector<T> all = first;
    all.insert(all.end(), second.begin(), second.end());
    return all;
  }

  void reduce(ReduceOp op, const std::string& name) {
    start("reduce/" + name);
    std::vector<T> values = own();
    dlaunch::reduce(view(values), size_ - 1, op);
    if (rank_ == size_ - 1) records_.put(values);
  }

  void all_reduce_coalesced(ReduceOp op, const std::string& name) {
    start("all_reduce_coalesced/" + name);
    std::vector<T> first = own();
    std::vector<T> second = own_second();
    const std::vector<Tensor> tensors = {view(first), view(second)};
    dlaunch::all_reduce_coalesced(tensors, op);
    records_.put(joined(first, second));
  }

  void reduce_scatter(ReduceOp op, const std::string& name) {
    start("reduce_scatter/" + name);
    std::vector<T> table = of_all_ranks();
    std::vector<T> part(count_);
    dlaunch::reduce_scatter(view(part), cut(table, ranks_), op);
    records_.put(part);

    start("reduce_scatter_tensor/" + name);
    part.assign(count_, T());
    dlaunch::reduce_scatter_tensor(view(part), view(table), op);
    records_.put(part);
  }

  Records& records_;
  std::string dtype_;
  std::size_t count_;
  std::size_t ranks_;
  int rank_;
  int size_;
};

// NCCL reduces float8 on some devices only. What it rejects, all ranks reject.
template <class T>
bool is_reduced() {
  T value = T::from(1);
  try {
    dlaunch::all_reduce(view(&value, 1));
    return true;
  } catch (const dlaunch::DistBackendError&) {
    return false;
  }
}

struct Rank {
  Records& records;
  int rank;
  int size;

  template <class T>
  void run(const std::string& dtype) const {
    const bool seldom_used = std::is_same_v<T, std::int16_t> || std::is_same_v<T, Truth> ||
                             std::is_same_v<T, dlaunch::BFloat16> ||
                             std::is_same_v<T, std::complex<double>> || is_float8<T>;
    const bool much_used = std::is_same_v<T, float> || std::is_same_v<T, std::int64_t>;
    const bool few = size <= few_ranks;
    std::vector<std::size_t> counts = short_counts;
    if (much_used || (few && !seldom_used)) counts.push_back(long_count);
    if (much_used && few) counts.push_back(longest_count);
    for (const std::size_t count : counts) {
      Cells<T> cells(records, dtype, count, rank, size);
      if constexpr (has_collectives<T>) cells.main_collectives();
      // Over NCCL a message waits for its receiver, and these would wait for each other.
      if (size > 1 && !is_nccl) cells.main_messages();
    }

    counts = fewer_counts;
    if (few && std::is_same_v<T, float>) counts.push_back(long_count);
    for (const std::size_t count : counts) {
      Cells<T> cells(records, dtype, count, rank, size);
      if constexpr (has_collectives<T>) cells.other_collectives();
      if (size > 1) cells.other_messages();
    }
  }

  void run_objects() const {
    for (const std::size_t count : fewer_counts) {
      const std::vector<std::uint8_t> values =
          values_of<std::uint8_t>(rank, count + static_cast<std::size_t>(rank));
      const std::string own(values.begin(), values.end());

      records.start("all_gather_object", "bytes", count);
      const std::vector<std::string> all = dlaunch::all_gather_object(own);
      put(all);

      records.start("gather_object", "bytes", count);
      const std::vector<std::string> gathered = dlaunch::gather_object(own, 0);
      if (rank == 0) put(gathered);

      records.start("broadcast_object_list", "bytes", count);
      std::vector<std::string> list = {own, own + own};
      dlaunch::broadcast_object_list(list, size / 2);
      put(list);

      records.start("scatter_object_list", "bytes", count);
      put({dlaunch::scatter_object_list(rank == 0 ? all : std::vector<std::string>(), 0)});
    }
  }

 private:
  void put(const std::vector<std::string>& objects) const {
    std::vector<std::uint8_t> bytes;
    for (const std::string& object : objects) bytes.insert(bytes.end(), object.begin(), object.end());
    records.put(bytes);
  }
};

void run_as_rank(int rank, int size, const std::string& path, CellName& cell,
                 const dlaunch::InitOptions& options = {}) {
  Records records(path, cell);
  const std::unique_ptr<Placement> device = device_placement(rank);
  placement = device.get();
  dlaunch::init_process_group(options);
  const Rank all = {records, rank, size};
  all.run<std::int8_t>("int8");
  all.run<std::uint8_t>("uint8");
  all.run<std::int16_t>("int16");
  all.run<std::int32_t>("int32");
  all.run<std::int64_t>("int64");
  all.run<Truth>("bool");
  all.run<dlaunch::Float16>("float16");
  all.run<dlaunch::BFloat16>("bfloat16");
  all.run<float>("float32");
  all.run<double>("float64");
  all.run<std::complex<float>>("complex64");
  all.run<std::complex<double>>("complex128");
  if (!is_nccl || is_reduced<dlaunch::Float8E4M3>()) {
    all.run<dlaunch::Float8E4M3>("float8_e4m3fn");
    all.run<dlaunch::Float8E5M2>("float8_e5m2");
  }
  all.run_objects();
  dlaunch::destroy_process_group();
  if (!records.good()) throw std::runtime_error("the results cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  // Arrays of some MiB are made and freed for each cell: without this the kernel clears their pages each
  // time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (argc != 3 && argc != 4) return 2;
  const std::string directory = argv[1];
  const int size = std::atoi(argv[2]);
  dlaunch::InitOptions options;
  if (argc == 4) options.backend = argv[3];
  is_nccl = options.backend == "nccl";
  const char* own_rank = std::getenv("RANK");
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (own_rank != nullptr || std::getenv(name) == nullptr) continue;
    own_rank = std::getenv(name);
    options.backend = dlaunch::BackendName::mpi;
  }
  if (own_rank != nullptr) {
    CellName cell{};
    try {
      run_as_rank(std::atoi(own_rank), size, directory + "/rank" + own_rank, cell, options);
      return 0;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "conformance_ranks: rank %s in '%s': %s\n", own_rank, cell.data(), e.what());
      return 1;
    }
  }
  const dlaunch::test::Shared<CellName> cells(static_cast<std::size_t>(size));
  try {
    dlaunch::spawn(
        [&](int rank) {
          run_as_rank(rank, size, directory + "/rank" + std::to_string(rank), cells.data()[rank], options);
        },
        size);
    return 0;
  } catch (const dlaunch::SpawnError& e) {
    const int rank = e.context().rank;
    std::fprintf(stderr, "conformance_ranks: %s; its cell is '%s'\n", e.what(), cells.data()[rank].data());
    return 1;
  }
}
