// Operations of the backend nccl that are captured into CUDA graphs.

#include <array>
#include <vector>

#include "tests/runtime/cuda/device_streams.h"

namespace dlaunch::test {
namespace {

// What `body` does on `stream`, as a graph.
class Graph {
 public:
  template <class Body>
  Graph(cudaStream_t stream, const Body& body, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    require(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture");
    body();
    cudaGraph_t captured = nullptr;
    require(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    require(cudaGraphInstantiateWithFlags(&exec_, captured, 0), "cudaGraphInstantiateWithFlags");
    require(cudaGraphDestroy(captured), "cudaGraphDestroy");
  }
  ~Graph() { (void)cudaGraphExecDestroy(exec_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const { require(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

// A group whose ranks have connected their devices, and a stream of the program's own.
struct Connected {
  explicit Connected(int rank) : device(device_of(rank)) {
    init(rank);
    barrier();
  }
  const int device;
  const cudaStream_t stream = make_stream();
  const StreamGuard guard{{stream}, device};
};

// What a graph gives that copies `1 + rank` to `values`, has `reduce` sum them up, and copies the result.
template <class Reduce>
std::string of_graph(int rank, const Reduce& reduce) {
  const Connected own(rank);
  const Floats source(std::vector<float>(1));
  const Floats values(std::vector<float>(1));
  const Floats result(std::vector<float>(1));
  const Graph graph(own.stream, [&] {
    copy(own.stream, values, source);
    reduce(values.tensor());
    copy(own.stream, result, values);
  });
  for (int i = 0; i < repeats; ++i) {
    source.set({static_cast<float>(i + rank)});
    graph.launch(own.stream);
    require(cudaStreamSynchronize(own.stream), "cudaStreamSynchronize");
    const auto wanted = static_cast<float>(2 * i + 1);
    if (result.get().front() != wanted) return "launch " + std::to_string(i) + ": " + text_of(result.get());
  }
  return "right";
}

TEST(NcclGraphs, ACapturedCallRunsAtEachLaunch) {
  const auto results =
      run_ranks(2, [](int rank) { return of_graph(rank, [](const Tensor& values) { all_reduce(values); }); });
  expect_all_say(results, "right");
}

TEST(NcclGraphs, TheWorkOfACapturedCallHasEndedAndOrdersTheStream) {
  const auto results = run_ranks(2, [](int rank) {
    return of_graph(rank, [](const Tensor& values) {
      const Work work = default_group().all_reduce(values, ReduceOp::sum, async());
      if (!work.has_ended() || !work.is_captured()) throw std::runtime_error("it has not ended");
      work.synchronize();
      work.wait();
    });
  });
  expect_all_say(results, "right");
}

TEST(NcclGraphs, CallsThatStartTogetherBecomeAPart) {
  const auto results = run_ranks(2, [](int rank) {
    require(cudaSetDevice(device_of(rank)), "cudaSetDevice");
    const Floats other(std::vector<float>(1));
    return of_graph(rank, [&](const Tensor& values) {
      Coalescing together(default_group());
      together.all_reduce(values);
      together.all_reduce(other.tensor());
      together.end().wait();
      barrier();
    });
  });
  expect_all_say(results, "right");
}

TEST(NcclGraphs, MessagesBecomeAPart) {
  const auto results = run_ranks(2, [](int rank) {
    const Connected own(rank);
    const Floats mine({static_cast<float>(rank)});
    const Floats theirs(std::vector<float>(1));
    const Graph graph(own.stream, [&] {
      const std::array<P2POp, 2> exchange = {
          P2POp{.kind = P2POp::Kind::isend, .tensor = mine.tensor(), .peer = 1 - rank},
          P2POp{.kind = P2POp::Kind::irecv, .tensor = theirs.tensor(), .peer = 1 - rank}};
      for (const Work& work : batch_isend_irecv(exchange)) work.wait();
    });
    for (int i = 0; i < repeats; ++i) {
      mine.set({static_cast<float>(10 * i + rank)});
      graph.launch(own.stream);
      require(cudaStreamSynchronize(own.stream), "cudaStreamSynchronize");
      if (theirs.get().front() != static_cast<float>(10 * i + 1 - rank)) return std::string("wrong");
    }
    return std::string("right");
  });
  expect_all_say(results, "right");
}

// The watchdog asks for the end of the other operation all the time.
TEST(NcclGraphs, OperationsOutsideOfTheGraphGoOn) {
  const auto results = run_ranks(2, [](int rank) {
    const Connected own(rank);
    const cudaStream_t others = make_stream();
    const Floats outside({1.0F});
    const Floats inside({1.0F});
    Gate gate;
    gate.hold(others);
    Work held;
    {
      const StreamGuard guard({others}, own.device);
      held = default_group().all_reduce(outside.tensor(), ReduceOp::sum, async());
    }
    const Graph graph(own.stream, [&] { all_reduce(inside.tensor()); });
    gate.open();
    held.synchronize();
    graph.launch(own.stream);
    require(cudaStreamSynchronize(own.stream), "cudaStreamSynchronize");
    return text_of(outside.get()) + " " + text_of(inside.get());
  });
  expect_all_say(results, "2 2");
}

TEST(NcclGraphs, ACaptureBeforeTheRanksHaveConnectedIsRejected) {
  const auto results = run_ranks(2, [](int rank) {
    init(rank);
    const cudaStream_t mine = make_stream();
    const Floats values({1.0F});
    std::string error;
    const Graph graph(mine, [&] {
      const StreamGuard guard({mine}, device_of(rank));
      error = thrown_by([&] { all_reduce(values.tensor()); });
    });
    all_reduce(values.tensor());
    return error + "|" + text_of(values.get());
  });
  expect_all_say(results,
                 "the current stream is being captured into a CUDA graph, and the ranks have not connected "
                 "their GPUs yet: call barrier() before the capture, or name the device (device_id) when the "
                 "group is made|2");
}

}  // namespace
}  // namespace dlaunch::test
