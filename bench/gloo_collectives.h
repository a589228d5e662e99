// Gloo's own collectives, on connections of their own, of floats and their sums.
#pragma once

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

class GlooCollectives {
 public:
  // `folder`: empty, and the same for all ranks.
  GlooCollectives(int rank, int size, const std::string& folder)
      : rank_(rank), context_(std::make_shared<gloo::rendezvous::Context>(rank, size)) {
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }

  void barrier() {
    gloo::BarrierOptions options(context_);
    options.setTag(tag_++);
    gloo::barrier(options);
  }

  void all_reduce(std::vector<float>& values) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(sum);
    options.setTag(tag_++);
    gloo::allreduce(options);
  }

  void reduce(std::vector<float>& input, std::vector<float>& output, int root) {
    gloo::ReduceOptions options(context_);
    options.setInput(input.data(), input.size());
    options.setOutput(output.data(), output.size());
    options.setReduceFunction(sum);
    options.setRoot(root);
    options.setTag(tag_++);
    gloo::reduce(options);
  }

  void broadcast(std::vector<float>& values, int root) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setRoot(root);
    options.setTag(tag_++);
    gloo::broadcast(options);
  }

  void all_gather(std::vector<float>& output, std::vector<float>& input) {
    gloo::AllgatherOptions options(context_);
    options.setInput(input.data(), input.size());
    options.setOutput(output.data(), output.size());
    options.setTag(tag_++);
    gloo::allgather(options);
  }

  void all_to_all(std::vector<float>& output, std::vector<float>& input) {
    gloo::AlltoallOptions options(context_);
    options.setInput(input.data(), input.size());
    options.setOutput(output.data(), output.size());
    options.setTag(tag_++);
    gloo::alltoall(options);
  }

  // `output` at the root only.
  void gather(std::vector<float>& output, std::vector<float>& input, int root) {
    gloo::GatherOptions options(context_);
    options.setInput(input.data(), input.size());
    if (rank_ == root) options.setOutput(output.data(), output.size());
    options.setRoot(root);
    options.setTag(tag_++);
    gloo::gather(options);
  }

  // `input` at the root only.
  void scatter(std::vector<float>& output, std::vector<float>& input, int root) {
    gloo::ScatterOptions options(context_);
    std::vector<float*> parts;
    if (rank_ == root) {
      for (std::size_t i = 0; i < input.size(); i += output.size()) parts.push_back(input.data() + i);
      options.setInputs(parts, output.size());
    }
    options.setOutput(output.data(), output.size());
    options.setRoot(root);
    options.setTag(tag_++);
    gloo::scatter(options);
  }

 private:
  static void sum(void* out, const void* a, const void* b, std::size_t count) {
    gloo::sum<float>(out, a, b, count);
  }

  int rank_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::uint32_t tag_ = 0;
};
