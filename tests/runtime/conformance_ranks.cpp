// One side of the conformance test (conformance_test.py): every case of its table on our runtime. Writes what
// each rank has in the end to DIRECTORY/rank<N>, a record for each case: name, newline, length in bytes,
// newline, bytes.
//
//   conformance_ranks DIRECTORY WORLD_SIZE

#include <dlaunch/distributed.h>
#include <dlaunch/spawn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

using dlaunch::DType;
using dlaunch::ReduceOp;
using dlaunch::Tensor;

const std::vector<std::size_t> short_counts = {0, 1, 7, 1000, 8193};
// Some MiB, for all dtypes where there are few ranks, and else for the dtypes that are used most.
constexpr std::size_t long_count = 300'007;
constexpr std::size_t longest_count = 1'000'003;
constexpr int few_ranks = 3;

// The i-th value of a rank; conformance_torch.py has the same formula. Halves of small numbers, which no
// dtype of the table rounds, so that sums have one right result; `thirds` are rounded by the floating point
// types.
template <class T>
T value_of(int rank, std::size_t i, bool thirds) {
  const int number = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13) % 23);
  if constexpr (std::is_same_v<T, dlaunch::Float16>) {
    return T::from(static_cast<float>(thirds ? number / 3.0 : number * 0.5 - 5));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(thirds ? number / 3.0 : number * 0.5 - 5);
  } else {
    return static_cast<T>(std::is_signed_v<T> ? number - 11 : number);
  }
}

template <class T>
std::vector<T> values_of(int rank, std::size_t count, bool thirds = false) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of<T>(rank, i, thirds);
  return values;
}

class Records {
 public:
  explicit Records(const std::string& path) : out_(path, std::ios::binary) {}

  template <class T>
  void add(const std::string& name, const std::vector<T>& values) {
    out_ << name << "\n" << values.size() * sizeof(T) << "\n";
    out_.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  [[nodiscard]] bool good() {
    out_.flush();
    return out_.good();
  }

 private:
  std::ofstream out_;
};

const std::vector<std::pair<ReduceOp, const char*>> arithmetic = {
    {ReduceOp::sum, "sum"}, {ReduceOp::product, "product"}, {ReduceOp::min, "min"}, {ReduceOp::max, "max"}};
const std::vector<std::pair<ReduceOp, const char*>> bitwise = {
    {ReduceOp::band, "band"}, {ReduceOp::bor, "bor"}, {ReduceOp::bxor, "bxor"}};

template <class T>
void run_cases(const std::string& dtype, int rank, int size, Records& records) {
  const std::size_t ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> lengths = short_counts;
  const bool much_used = dtype == "float32" || dtype == "int64";
  if (much_used || size <= few_ranks) lengths.push_back(long_count);
  if (much_used && size <= few_ranks) lengths.push_back(longest_count);
  for (const std::size_t count : lengths) {
    const auto name = [&](const std::string& call) {
      return call + " " + dtype + " " + std::to_string(count);
    };
    auto ops = arithmetic;
    if constexpr (std::is_integral_v<T>) ops.insert(ops.end(), bitwise.begin(), bitwise.end());
    for (const auto& [op, op_name] : ops) {
      std::vector<T> values = values_of<T>(rank, count);
      dlaunch::all_reduce(Tensor::of(values), op);
      records.add(name(std::string("all_reduce/") + op_name), values);
    }
    std::vector<T> rounded = values_of<T>(rank, count, true);
    dlaunch::all_reduce(Tensor::of(rounded));
    records.add(name("all_reduce/sum-of-thirds"), rounded);

    std::vector<T> values = values_of<T>(rank, count);
    dlaunch::reduce(Tensor::of(values), size - 1);
    if (rank == size - 1) records.add(name("reduce"), values);

    values = values_of<T>(rank, count);
    dlaunch::broadcast(Tensor::of(values), size / 2);
    records.add(name("broadcast"), values);

    const std::vector<T> own = values_of<T>(rank, count);
    std::vector<T> all(ranks * count);
    dlaunch::all_gather_into_tensor(Tensor::of(all), Tensor::of(own));
    records.add(name("all_gather"), all);

    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < ranks; ++i) {
      parts.push_back(Tensor::from(all.data() + i * count, {static_cast<std::int64_t>(count)}));
    }
    std::vector<T> gathered(rank == 0 ? ranks * count : 0);
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; rank == 0 && i < ranks; ++i) {
      outputs.push_back(Tensor::from(gathered.data() + i * count, {static_cast<std::int64_t>(count)}));
    }
    dlaunch::gather(outputs, Tensor::of(own), 0);
    if (rank == 0) records.add(name("gather"), gathered);

    std::vector<T> scattered(count);
    dlaunch::scatter(Tensor::of(scattered), rank == 0 ? parts : std::vector<Tensor>(), 0);
    records.add(name("scatter"), scattered);

    std::vector<T> turned(ranks * count);
    const std::vector<T> table = values_of<T>(rank, ranks * count);
    dlaunch::all_to_all_single(Tensor::of(turned), Tensor::of(table));
    records.add(name("all_to_all_single"), turned);

    std::vector<T> received(count);
    const dlaunch::Work sent = dlaunch::isend(Tensor::of(own), (rank + 1) % size);
    dlaunch::recv(Tensor::of(received), (rank + size - 1) % size);
    sent.wait();
    records.add(name("send/recv"), received);
  }
}

void be_rank(int rank, int size, const std::string& directory) {
  Records records(directory + "/rank" + std::to_string(rank));
  dlaunch::init_process_group();
  run_cases<std::int8_t>("int8", rank, size, records);
  run_cases<std::uint8_t>("uint8", rank, size, records);
  run_cases<std::int32_t>("int32", rank, size, records);
  run_cases<std::int64_t>("int64", rank, size, records);
  run_cases<dlaunch::Float16>("float16", rank, size, records);
  run_cases<float>("float32", rank, size, records);
  run_cases<double>("float64", rank, size, records);
  dlaunch::destroy_process_group();
  if (!records.good()) throw std::runtime_error("the results cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string directory = argv[1];
  const int size = std::atoi(argv[2]);
  try {
    dlaunch::spawn([&](int rank) { be_rank(rank, size, directory); }, size);
    return 0;
  } catch (const dlaunch::DistError& e) {
    std::fprintf(stderr, "conformance_ranks: %s\n", e.what());
    return 1;
  }
}
