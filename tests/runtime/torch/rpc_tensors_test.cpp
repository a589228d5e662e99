// Tensors as arguments and results of remote calls.

#include "dlaunch/torch/rpc_tensors.h"

#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "dlaunch/rpc_info.h"
#include "tests/runtime/api/variable.h"
#include "tests/runtime/torch/rpc_workers.h"

namespace dlaunch::test {
namespace {

using rpc::rpc_async;
using rpc::rpc_sync;

at::Tensor plus(const at::Tensor& a, const at::Tensor& b) { return a + b; }
DLAUNCH_RPC(plus);
at::Tensor same(at::Tensor tensor) { return tensor; }
DLAUNCH_RPC(same);
using Many = std::map<std::string, std::tuple<std::vector<at::Tensor>, std::optional<at::Tensor>, int>>;
Many same_many(const Many& tensors) { return tensors; }
DLAUNCH_RPC(same_many);
at::Tensor negate(at::Tensor tensor) { return tensor.neg_(); }
DLAUNCH_RPC(negate);
at::Tensor of_tensor(const at::Tensor& tensor) { return tensor; }
at::Tensor of_numbers(const std::vector<float>& numbers) { return ::torch::tensor(numbers); }

TEST(RpcTensors, TheDocumentedCalls) {
  expect_ok(2, []() -> std::string {
    const at::Tensor sum = rpc_sync("worker1", plus, ::torch::ones(2), ::torch::full({2}, 3));
    REQUIRE(at::equal(sum, ::torch::full({2}, 4.F)));
    REQUIRE(at::equal(rpc_async("worker1", plus, ::torch::ones(2), ::torch::tensor(3.F)).wait(),
                      ::torch::full({2}, 4.F)));
    REQUIRE(at::equal(rpc::remote("worker1", plus, ::torch::full({2}, 2), ::torch::full({2}, 4)).to_here(),
                      ::torch::full({2}, 6)));
    return "ok";
  });
}

TEST(RpcTensors, AllKindsOfTensors) {
  expect_ok(2, []() -> std::string {
    for (const at::ScalarType type :
         {at::kChar, at::kShort, at::kInt, at::kLong, at::kByte, at::kBool, at::kHalf, at::kBFloat16,
          at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
      const at::Tensor tensor = ::torch::arange(6).reshape({2, 3}).to(type);
      const at::Tensor back = rpc_sync("worker1", same, tensor);
      REQUIRE(back.scalar_type() == type && at::equal(back, tensor));
    }
    const at::Tensor wide = ::torch::arange(12.).reshape({3, 4});
    for (const at::Tensor& view : {wide.t(), wide.slice(1, 0, 4, 2), wide[1][2], wide.slice(0, 0, 0),
                                   ::torch::ones({1}).expand({5}), ::torch::complex(wide, wide).conj()}) {
      const at::Tensor back = rpc_sync("worker1", same, view);
      REQUIRE(back.sizes() == view.sizes() && at::equal(back, view.resolve_conj()) && back.is_contiguous());
    }
    REQUIRE(!rpc_sync("worker1", same, at::Tensor()).defined());
    return "ok";
  });
}

TEST(RpcTensors, InContainersAndLong) {
  expect_ok(2, []() -> std::string {
    const at::Tensor large = ::torch::arange(1'000'000.);
    const Many many = {{"a", {{large, ::torch::ones({3}), at::Tensor()}, large.t() * 2, 7}},
                       {"b", {{}, {}, 8}}};
    const Many back = rpc_sync("worker1", same_many, many);
    const auto& [tensors, maybe, number] = back.at("a");
    REQUIRE(tensors.size() == 3 && at::equal(tensors[0], large) && at::equal(tensors[1], ::torch::ones({3})));
    REQUIRE(!tensors[2].defined() && maybe && at::equal(*maybe, large * 2) && number == 7);
    REQUIRE(!std::get<1>(back.at("b")));
    REQUIRE(reinterpret_cast<std::uintptr_t>(tensors[0].data_ptr()) % codec::block_alignment == 0);
    return "ok";
  });
}

// The tensor that has arrived is the function's own.
TEST(RpcTensors, MayBeChangedWhereTheyArrive) {
  expect_ok(2, []() -> std::string {
    const at::Tensor large = ::torch::ones({100'000});
    REQUIRE(at::equal(rpc_sync("worker1", negate, large), -large));
    REQUIRE(at::equal(large, ::torch::ones({100'000})));
    return "ok";
  });
}

TEST(RpcTensors, ATensorWithoutAContextIsAConstant) {
  expect_ok(2, []() -> std::string {
    REQUIRE(!rpc_sync("worker1", same, ::torch::ones({2}, at::requires_grad())).requires_grad());
    return "ok";
  });
}

TEST(RpcTensors, WhatCannotBeSentIsAnErrorBefore) {
  expect_ok(2, []() -> std::string {
    REQUIRE_HAS(error_of([] {
                  rpc_sync("worker1", same, ::torch::ones({2, 3}, at::kMeta));
                }),
                "a tensor of Float [2, 3] is on meta, and remote calls carry tensors of the CPU");
    REQUIRE_HAS(error_of([] { rpc_sync("worker1", same, ::torch::eye(2).to_sparse()); }), "is sparse");
    REQUIRE(rpc::get_debug_info().calls == 0);
    return "ok";
  });
}

// As if the programs differed: a worker has registered the name for another function.
TEST(RpcTensors, AnotherSignatureIsRejected) {
  expect_all_say(run_processes(2,
                               [](int rank) -> std::string {
                                 rank == 0 ? rpc::Registration("other", of_tensor)
                                           : rpc::Registration("other", of_numbers);
                                 rpc::init_rpc(name_of(rank));
                                 std::string said =
                                     "has registered the function 'other' with other types of arguments";
                                 if (rank == 0)
                                   said = error_of([] { rpc_sync("worker1", of_tensor, ::torch::ones(2)); });
                                 rpc::shutdown();
                                 const std::size_t at = said.find("has registered");
                                 return at == std::string::npos ? said : said.substr(at, 65);
                               }),
                 "has registered the function 'other' with other types of arguments");
}

// --- remote() that comes to nothing

std::uint64_t owned() { return rpc::get_debug_info().owned_references; }
DLAUNCH_RPC(owned);
at::Tensor fail(const at::Tensor& tensor) {
  throw std::out_of_range("no row " + std::to_string(tensor.numel()));
}
DLAUNCH_RPC(fail);

std::atomic<int> freed = 0;
// Whose end is counted.
at::Tensor counted(std::int64_t size) {
  auto* const data = new float[static_cast<std::size_t>(size)]();
  return ::torch::from_blob(data, {size}, [data](void*) {
    delete[] data;
    ++freed;
  });
}

bool becomes(const std::function<bool()>& condition) {
  for (const auto limit = std::chrono::steady_clock::now() + rpc_limit; !condition();) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

// The uses of the reference report the owner's reason, each time; then nothing is kept of tensor and value.
std::string comes_to_nothing(at::Tensor (*function)(const at::Tensor&), const char* reason) {
  constexpr std::int64_t sizes[] = {3, 100'000, 1'000'000};
  for (const std::int64_t size : sizes) {
    freed = 0;
    {
      const rpc::RRef<at::Tensor> value = rpc::remote("worker1", function, counted(size));
      REQUIRE_HAS(error_of([&] { (void)value.to_here(); }), reason);
      REQUIRE_HAS(error_of([&] { (void)value.to_here(); }), reason);
    }
    REQUIRE(becomes([] { return freed == 1; }));
    REQUIRE(becomes([] { return rpc::get_debug_info().used_references == 0; }));
    REQUIRE(becomes([] { return rpc_sync("worker1", owned) == 0; }));
    REQUIRE(at::equal(rpc_sync("worker1", same, ::torch::ones({size})), ::torch::ones({size})));
  }
  return "ok";
}

TEST(RpcTensors, ARemoteCallThatIsRejectedReportsWhyAndKeepsNothing) {
  for (const char* const over_unix : {"1", "0"}) {
    const Variable way("DLAUNCH_RPC_UNIX", over_unix);
    expect_all_say(run_processes(2,
                                 [](int rank) -> std::string {
                                   rank == 0 ? rpc::Registration("other", of_tensor)
                                             : rpc::Registration("other", of_numbers);
                                   rpc::init_rpc(name_of(rank));
                                   std::string said = "ok";
                                   if (rank == 0)
                                     said = comes_to_nothing(
                                         of_tensor, "has registered the function 'other' with other types");
                                   rpc::shutdown();
                                   return said;
                                 }),
                   "ok");
    expect_ok(2, [] { return comes_to_nothing(fail, "std::out_of_range: no row "); });
  }
}

// --- Without workers: the bytes

TEST(RpcTensors, HaveASignatureOfTheirOwn) {
  EXPECT_NE(codec::signature_of<at::Tensor>(), codec::signature_of<std::vector<double>>());
  EXPECT_NE(codec::signature_of<at::Tensor>(), codec::signature_of<std::vector<at::Tensor>>());
}

TEST(RpcTensors, AreAlsoObjects) {
  const at::Tensor tensor = ::torch::arange(5.);
  EXPECT_TRUE(at::equal(from_bytes<at::Tensor>(to_bytes(tensor)), tensor));
}

TEST(RpcTensors, WrongBytesAreErrors) {
  const std::string good = to_bytes(::torch::arange(5));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW((void)from_bytes<at::Tensor>(good.substr(0, size)), DistError) << size;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    try {
      const at::Tensor other = from_bytes<at::Tensor>(bytes);
      EXPECT_LE(other.defined() ? other.nbytes() : 0, good.size());
    } catch (const DistError&) {  // NOLINT(bugprone-empty-catch): or other values
    }
  }
}

}  // namespace
}  // namespace dlaunch::test
