// CUDA tensors in remote calls, by device maps.

#include <torch/torch.h>

#include <atomic>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "dlaunch/rpc_info.h"
#include "tests/runtime/torch/rpc_workers.h"
#include "tests/runtime/torch/torch_devices.h"

namespace dlaunch::test {
namespace {

namespace dist_autograd = dlaunch::torch::dist_autograd;
using rpc::rpc_async;
using rpc::rpc_sync;
using Map = std::map<int, int>;

at::Tensor on_device(double value, int device) {
  return ::torch::full({3}, value).to(torch_device_of(device));
}
bool is_at(const at::Tensor& tensor, double value, int device) {
  return tensor.device() == torch_device_of(device) && at::equal(tensor.cpu(), ::torch::full({3}, value));
}

std::string place(const at::Tensor& tensor) { return tensor.device().str(); }
DLAUNCH_RPC(place);
at::Tensor same(at::Tensor tensor) { return tensor; }
DLAUNCH_RPC(same);
at::Tensor twice(const at::Tensor& tensor) { return tensor * 2; }
DLAUNCH_RPC(twice);
at::Tensor make(double value, int device) { return on_device(value, device); }
DLAUNCH_RPC(make);
at::Tensor make_on_cpu(double value) { return ::torch::full({3}, value); }
DLAUNCH_RPC(make_on_cpu);
using Places = std::vector<std::string>;
using Several = std::tuple<Places, std::vector<at::Tensor>>;
Several several(const std::vector<at::Tensor>& tensors) {
  Places places;
  for (const at::Tensor& tensor : tensors) places.push_back(tensor.defined() ? place(tensor) : "nowhere");
  return {places, tensors};
}
DLAUNCH_RPC(several);
at::Tensor fails(const at::Tensor& tensor) { throw std::out_of_range("not " + tensor.device().str()); }
DLAUNCH_RPC(fails);

// Of the worker that has it.
struct Adder {
  at::Tensor sum;
  at::Tensor add(const at::Tensor& other) { return sum = sum + other; }
};
std::shared_ptr<Adder> make_adder(at::Tensor first) {
  return std::make_shared<Adder>(Adder{std::move(first)});
}
DLAUNCH_RPC(make_adder);
DLAUNCH_RPC(&Adder::add);

rpc::RpcOptions maps(const std::map<std::string, Map>& maps) {
  rpc::RpcOptions options;
  options.device_maps = maps;
  return options;
}

// One device is enough: then both workers use it.
const std::vector<rpc::RpcOptions>& to_next() {
  static const std::vector<rpc::RpcOptions> options = {maps({{"worker1", {{0, device_of(1)}}}})};
  return options;
}

TEST(DeviceMaps, ArgumentsGoByTheMapAndResultsByItsInverse) {
  expect_ok(
      2,
      []() -> std::string {
        const at::Tensor x = on_device(1, 0);
        REQUIRE(rpc_sync("worker1", place, x) == torch_device_of(1).str());
        REQUIRE(is_at(rpc_sync("worker1", twice, x), 2, 0));
        REQUIRE(is_at(rpc_async("worker1", twice, x).wait(), 2, 0));
        REQUIRE(is_at(rpc_sync("worker1", make, 7., 1), 7, 0));
        REQUIRE(is_at(rpc_sync({"worker1"}, twice, rpc_sync(1, twice, x)), 4, 0));
        // Those of the CPU stay there.
        REQUIRE(rpc_sync("worker1", place, ::torch::ones(3)) == "cpu");
        REQUIRE(rpc_sync("worker1", make_on_cpu, 5.).is_cpu());
        return "ok";
      },
      to_next());
}

TEST(DeviceMaps, AnyShapeAndDtypeAndLongOnes) {
  expect_ok(
      2,
      []() -> std::string {
        const at::Tensor wide = ::torch::arange(12.).reshape({3, 4});
        for (const at::Tensor& host : {wide, wide.t(), wide.slice(0, 0, 0), wide.to(at::kHalf), wide[1][2],
                                       ::torch::arange(1'000'000.)}) {
          const at::Tensor back = rpc_sync("worker1", same, host.to(torch_device_of(0)));
          REQUIRE(back.device() == torch_device_of(0) && back.is_contiguous());
          REQUIRE(back.scalar_type() == host.scalar_type() && at::equal(back.cpu(), host));
        }
        const auto [places, tensors] =
            rpc_sync("worker1", several, std::vector<at::Tensor>{on_device(1, 0), at::Tensor(), wide});
        REQUIRE(places == Places({torch_device_of(1).str(), "nowhere", "cpu"}));
        REQUIRE(is_at(tensors[0], 1, 0) && !tensors[1].defined() && at::equal(tensors[2], wide));
        return "ok";
      },
      to_next());
}

// PyTorch's example: worker 0 maps 0 to 1 and 1 to 2.
TEST(DeviceMaps, SeveralDevices) {
  NEEDS_DEVICES(3);
  rpc::RpcOptions options;
  options.set_device_map("worker1", {{0, 1}});
  options.set_device_map("worker1", {{1, 2}});
  options.set_device_map("worker1", {{1, 2}});
  EXPECT_EQ(error_of([&] {
              options.set_device_map("worker1", {{1, 0}});
            }),
            "the device map for worker worker1 has device 2 for device 1 already, and not 0");
  expect_ok(2,
            []() -> std::string {
              const auto [places, tensors] =
                  rpc_sync("worker1", several,
                           std::vector<at::Tensor>{on_device(1, 0), on_device(2, 1), on_device(3, 0)});
              REQUIRE(places == Places({"cuda:1", "cuda:2", "cuda:1"}));
              REQUIRE(is_at(tensors[0], 1, 0) && is_at(tensors[1], 2, 1) && is_at(tensors[2], 3, 0));
              REQUIRE(is_at(rpc_sync("worker1", make, 4., 2), 4, 1));
              return "ok";
            },
            {options});
}

TEST(DeviceMaps, RemoteReferencesAndAWorkerThatCallsItself) {
  const rpc::RpcOptions options = maps({{"worker1", {{0, device_of(1)}}}, {"worker0", {{0, device_of(2)}}}});
  expect_ok(2,
            []() -> std::string {
              const rpc::RRef<at::Tensor> there = rpc::remote("worker1", twice, on_device(3, 0));
              REQUIRE(is_at(there.to_here(), 6, 0) && is_at(there.to_here(), 6, 0));
              const auto adder = rpc::remote("worker1", make_adder, on_device(1, 0));
              REQUIRE(is_at(adder.rpc_sync(&Adder::add, on_device(2, 0)), 3, 0));
              REQUIRE(is_at(adder.rpc_async(&Adder::add, on_device(2, 0)).wait(), 5, 0));
              REQUIRE(rpc_sync("worker0", place, on_device(1, 0)) == torch_device_of(2).str());
              REQUIRE(is_at(rpc_sync("worker0", twice, on_device(1, 0)), 2, 0));
              REQUIRE(is_at(rpc::RRef<at::Tensor>(on_device(1, 2)).to_here(), 1, 0));
              return "ok";
            },
            {options});
}

TEST(DeviceMaps, WithoutOneTensorsOfDevicesAreErrors) {
  expect_ok(
      3,
      []() -> std::string {
        const at::Tensor x = on_device(1, 0);
        const std::string why = error_of([&] { rpc_sync("worker2", same, x); });
        REQUIRE_HAS(
            why, "a tensor of Float [3] is on cuda:0, and no device map of this worker for worker worker2");
        REQUIRE_HAS(
            why,
            "call set_device_map(\"worker2\", {{0, its device}}) on the RpcOptions of init_rpc, or pass "
            "its cpu()");
        REQUIRE_HAS(error_of([&] { rpc_async(2, same, x); }), "is on cuda:0, and no device map");
        REQUIRE_HAS(error_of([&] { rpc::remote("worker2", same, x); }), "is on cuda:0, and no device map");
        REQUIRE_HAS(error_of([&] { to_bytes(x); }), "is on cuda:0, and objects carry tensors of the CPU");
        const rpc::DebugInfo info = rpc::get_debug_info();
        REQUIRE(info.calls == 0 && info.bytes_sent == 0);
        const std::string result = error_of([&] { rpc_sync("worker2", make, 1., 0); });
        REQUIRE_HAS(result,
                    "is on cuda:0, and the device map of worker worker0 for worker worker2 does not name it");
        REQUIRE_HAS(
            result,
            "call set_device_map(\"worker2\", {{its device, 0}}) on the RpcOptions of worker worker0");
        const auto kept = rpc::remote("worker2", make, 1., 0);
        REQUIRE_HAS(error_of([&] { (void)kept.to_here(); }),
                    "is on cuda:0, and the device map of worker worker0");
        REQUIRE(is_at(rpc_sync("worker1", same, x), 1, 0));
        return "ok";
      },
      to_next());
}

TEST(DeviceMaps, ADeviceThatTheMapDoesNotNameIsAnError) {
  NEEDS_DEVICES(3);
  expect_ok(
      2,
      []() -> std::string {
        REQUIRE_HAS(error_of([] { rpc_sync("worker1", same, on_device(1, 1)); }),
                    "is on cuda:1, and no device map of this worker for worker worker1 names it");
        REQUIRE_HAS(error_of([] { rpc_sync("worker1", make, 1., 2); }),
                    "is on cuda:2, and the device map of worker worker0 for worker worker1 does not name it");
        return "ok";
      },
      to_next());
}

TEST(DeviceMaps, WrongOnesAreErrorsOfInitRpcOnAllWorkers) {
  const std::string count = std::to_string(device_count());
  const std::string have =
      "which has " + count +
      (device_count() == 1 ? " device: 0" : " devices: 0 to " + std::to_string(device_count() - 1));
  const std::map<std::string, std::map<std::string, Map>> wrong = {
      {"the device map of worker worker0 for worker worker1 names device " + count + " of worker worker0, " +
           have,
       {{"worker1", {{device_count(), 0}}}}},
      {"the device map of worker worker0 for worker worker1 names device " + count + " of worker worker1, " +
           have,
       {{"worker1", {{0, device_count()}}}}},
      {"worker worker0 has a device map for worker 'worker7', and there are worker0, worker1",
       {{"worker7", {{0, 0}}}}}};
  for (const auto& [why, map] : wrong) {
    const auto results = run_processes(2, [&map = map](int rank) {
      return error_of([&] { rpc::init_rpc(name_of(rank), rank == 0 ? maps(map) : rpc::RpcOptions()); });
    });
    for (const RankResult& result : results)
      EXPECT_NE(result.said.find(why), std::string::npos) << result.said;
  }
}

TEST(DeviceMaps, OneToOneAndOfTheDevicesThatAreNamed) {
  NEEDS_DEVICES(3);
  rpc::RpcOptions two_to_one = maps({{"worker1", {{0, 2}, {1, 2}}}});
  rpc::RpcOptions not_used = maps({{"worker1", {{0, 1}}}});
  not_used.devices = {1};
  rpc::RpcOptions doubled;
  doubled.devices = {1, 2, 1};
  const std::vector<std::pair<std::string, rpc::RpcOptions>> wrong = {
      {"the device map of worker worker0 for worker worker1 has device 2 for the devices 0 and 1",
       two_to_one},
      {"names device 0 of worker worker0, which is not one of the devices in that worker's RpcOptions",
       not_used},
      {"the devices in the RpcOptions of worker worker0 name device 1 twice", doubled}};
  for (const auto& [why, options] : wrong) {
    const auto results = run_processes(2, [&options = options](int rank) {
      return error_of([&] { rpc::init_rpc(name_of(rank), rank == 0 ? options : rpc::RpcOptions()); });
    });
    for (const RankResult& result : results)
      EXPECT_NE(result.said.find(why), std::string::npos) << result.said;
  }
}

// Workers that come and go ask the store for the maps of those that call them.
TEST(DeviceMaps, OfWorkersThatComeAndGo) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    unsetenv("WORLD_SIZE");
    const auto store =
        make_tcp_store("127.0.0.1", static_cast<std::uint16_t>(std::stoi(std::getenv("MASTER_PORT"))));
    rpc::init_rpc(name_of(rank), rank == 0 ? to_next().front() : rpc::RpcOptions());
    store->set(name_of(rank), "");
    store->wait(std::vector<std::string>{"worker0", "worker1"}, rpc_limit);
    const std::string said =
        rank == 1 || is_at(rpc_sync("worker1", twice, on_device(2, 0)), 4, 0) ? "ok" : "wrong";
    store->set("done" + std::to_string(rank), "");
    store->wait(std::vector<std::string>{"done0", "done1"}, rpc_limit);
    rpc::shutdown();
    return said;
  });
  expect_all_say(results, "ok");
}

TEST(DeviceMaps, FunctionsThatFail) {
  expect_ok(
      2,
      []() -> std::string {
        REQUIRE_HAS(error_of([] { rpc_sync("worker1", fails, on_device(1, 0)); }),
                    ("not " + torch_device_of(1).str()));
        REQUIRE(is_at(rpc_sync("worker1", same, on_device(1, 0)), 1, 0));
        return "ok";
      },
      to_next());
}

// A device in the bytes that this worker has not got.
TEST(DeviceMaps, WrongBytesAreErrors) {
  const auto results = run_processes(1, [](int) -> std::string {
    const std::string cpu = to_bytes(::torch::ones(3));
    std::string bytes = cpu;
    const auto sent_to = [&](std::int16_t device) {
      const std::size_t at = bytes.find(std::string("\xff\xff", 2));
      std::memcpy(bytes.data() + at, &device, sizeof device);
      return from_bytes<at::Tensor>(std::exchange(bytes, cpu));
    };
    REQUIRE(is_at(sent_to(0), 1, 0));
    for (const int device : {-2, device_count(), 32767}) {
      REQUIRE_HAS(error_of([&] { sent_to(static_cast<std::int16_t>(device)); }),
                  ("a serialised tensor is for device " + std::to_string(device)));
    }
    return "ok";
  });
  expect_all_say(results, "ok");
}

// --- Streams

// What a stream of the program has written just before the call.
TEST(DeviceMaps, TheCallIsInTheOrderOfTheCallersStream) {
  expect_ok(
      2,
      []() -> std::string {
        const cudaStream_t mine = make_stream();
        const at::Tensor values = on_device(0, 0);
        for (int i = 1; i <= repeats; ++i) {
          const at::Tensor source = on_device(i, 0);
          const auto guard = in_stream(mine, 0);
          Gate gate;
          gate.hold(mine);
          values.copy_(source);
          std::atomic<bool> calls = false;
          std::thread opener([&] {
            calls.wait(false);
            gate.open();
          });
          calls = true;
          calls.notify_one();
          const at::Tensor back =
              i % 2 == 0 ? rpc_sync("worker1", twice, values) : rpc_async("worker1", twice, values).wait();
          opener.join();
          const at::Tensor result = at::empty_like(back);
          result.copy_(back);
          REQUIRE(is_at(result, 2. * i, 0));
        }
        return "ok";
      },
      to_next());
}

// Of a tensor that was made where autograd's node was.
c10::Stream stream_of_node(const at::Tensor& tensor) { return tensor.grad_fn()->input_metadata(0).stream(); }

TEST(DeviceMaps, TheResultIsMadeInTheStreamOfTheCall) {
  expect_ok(
      2,
      []() -> std::string {
        const dist_autograd::Context context;
        const at::Tensor x = on_device(1, 0).requires_grad_();
        const auto guard = in_stream(make_stream(), 0);
        for (int i = 0; i < repeats; ++i)
          REQUIRE(stream_of_node(rpc_async("worker1", same, x).wait()) == guard.current_stream());
        return "ok";
      },
      to_next());
}

// --- Distributed autograd

at::Tensor& weight() {
  static at::Tensor only = on_device(5, 1).requires_grad_();
  return only;
}
at::Tensor weigh(const at::Tensor& input) { return input * weight(); }
DLAUNCH_RPC(weigh);
at::Tensor gradient_of_weight(std::int64_t context) {
  return dist_autograd::get_gradients(context).at(weight());
}
DLAUNCH_RPC(gradient_of_weight);

TEST(DeviceMaps, GradientsGoBackToTheDevicesOfTheTensors) {
  expect_ok(
      2,
      []() -> std::string {
        const auto guard = in_stream(make_stream(), 0);
        for (int i = 1; i <= repeats; ++i) {
          const dist_autograd::Context context;
          const at::Tensor x = on_device(i, 0).requires_grad_();
          const at::Tensor y = rpc_sync("worker1", weigh, x * x);
          REQUIRE(is_at(y.detach(), 5. * i * i, 0) && y.requires_grad());
          // Gradients of both calls, and of this worker's own part.
          const at::Tensor loss = (rpc_sync("worker1", twice, y) + x).sum();
          dist_autograd::backward(context.id(), {loss});
          const auto gradients = dist_autograd::get_gradients(context.id());
          REQUIRE(is_at(gradients.at(x), 2. * 5 * 2 * i + 1, 0));
          REQUIRE(is_at(rpc_sync("worker1", gradient_of_weight, context.id()), 2. * i * i, 0));
        }
        return "ok";
      },
      to_next());
}

TEST(DeviceMaps, RemoteModulesAndTheirOptimizer) {
  expect_ok(
      2,
      []() -> std::string {
        const std::string device = torch_device_of(1).str();
        const dlaunch::torch::RemoteModule<::torch::nn::Linear> linear("worker1/" + device, 3, 2);
        const auto parameters = linear.remote_parameters();
        ::torch::nn::Linear copy(3, 2);
        const auto copy_parameters = [&] {
          const ::torch::NoGradGuard no_grad;
          for (std::size_t i = 0; i < 2; ++i) copy->parameters()[i].copy_(parameters[i].to_here().cpu());
        };
        const dlaunch::torch::DistributedOptimizer<::torch::optim::SGD> optimizer(
            parameters, ::torch::optim::SGDOptions(0.1));
        copy_parameters();
        for (int i = 0; i < 3; ++i) {
          copy->zero_grad();
          const at::Tensor input = ::torch::rand({4, 3});
          const dist_autograd::Context context;
          // Of the CPU, and on the map's device.
          const at::Tensor output = linear.forward(i == 1 ? input.to(torch_device_of(0)) : input);
          REQUIRE(output.device() == torch_device_of(0) && output.cpu().allclose(copy(input)));
          dist_autograd::backward(context.id(), {output.sum()});
          optimizer.step(context.id());
          copy(input).sum().backward();
          ::torch::optim::SGD(copy->parameters(), 0.1).step();
          const at::Tensor mine = copy->weight.detach().clone();
          copy_parameters();
          REQUIRE(copy->weight.allclose(mine));
        }
        return "ok";
      },
      to_next());
}

// Its gradient is not there until the gate of the last one opens.
struct Late : ::torch::autograd::Function<Late> {
  static inline Gate* gate = nullptr;
  static inline cudaStream_t ran_in = nullptr;
  static at::Tensor forward(::torch::autograd::AutogradContext*, const at::Tensor& input) {
    return input.clone();
  }
  static ::torch::autograd::variable_list backward(::torch::autograd::AutogradContext*,
                                                   const ::torch::autograd::variable_list& gradients) {
    at::Tensor late = at::zeros_like(gradients[0]);
    const at::Tensor source = gradients[0] * 3;
    const auto device = source.device();
    const c10::Stream here = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
    ran_in = reinterpret_cast<cudaStream_t>(here.id());
    gate->hold(ran_in);
    late.copy_(source);
    return {late};
  }
};

// A node runs in the stream of its forward, after those before it; backward() returns when the gradients are
// there for every stream.
TEST(DeviceMaps, NodesAreInTheOrderOfTheirStreams) {
  const auto results = run_processes(1, [](int rank) -> std::string {
    rpc::init_rpc(name_of(rank));
    const cudaStream_t streams[] = {make_stream(), make_stream(), make_stream()};
    for (int i = 0; i < repeats; ++i) {
      const dist_autograd::Context context;
      const at::Tensor near = on_device(2, 0).requires_grad_();
      const at::Tensor far = on_device(2, 0).requires_grad_();
      at::Tensor loss;
      {
        const auto guard = in_stream(streams[0], 0);
        loss = far * 5;
      }
      Gate gate;
      Late::gate = &gate;
      {
        const auto guard = in_stream(streams[1], 0);
        loss = Late::apply(i % 2 == 0 ? loss : near).sum();
      }
      const auto other = in_stream(streams[2], 0);
      std::thread opener([&] { gate.open(); });
      dist_autograd::backward(context.id(), {loss});
      opener.join();
      REQUIRE(Late::ran_in == streams[1]);
      const auto gradients = dist_autograd::get_gradients(context.id());
      REQUIRE(i % 2 == 0 ? is_at(gradients.at(far), 15, 0) : is_at(gradients.at(near), 3, 0));
    }
    rpc::shutdown();
    return "ok";
  });
  expect_all_say(results, "ok");
}

// The callee has no map, and a gradient's device is not that of the inverse map.
TEST(DeviceMaps, GradientsOfSeveralDevices) {
  NEEDS_DEVICES(3);
  rpc::RpcOptions back = maps({{"worker0", {{1, 2}, {2, 1}}}});
  expect_ok(2,
            []() -> std::string {
              const dist_autograd::Context context;
              const at::Tensor x = on_device(1, 0).requires_grad_();
              const at::Tensor y = on_device(2, 1).requires_grad_();
              const auto [places, tensors] = rpc_sync("worker1", several, std::vector<at::Tensor>{x, y});
              REQUIRE(places == Places({"cuda:1", "cuda:2"}));
              dist_autograd::backward(context.id(), {(tensors[0] * 3).sum(), (tensors[1] * 4).sum()});
              const auto gradients = dist_autograd::get_gradients(context.id());
              REQUIRE(is_at(gradients.at(x), 3, 0) && is_at(gradients.at(y), 4, 1));
              return "ok";
            },
            {maps({{"worker1", {{0, 1}, {1, 2}}}}), back});
}

}  // namespace
}  // namespace dlaunch::test
