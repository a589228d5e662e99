// All collectives over a Transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dlaunch/backend.h"
#include "dlaunch/export.h"
#include "dlaunch/transport.h"

namespace dlaunch {
inline namespace v1 {

// Turns a Transport into a Backend for CPU tensors. Operations run one after another: asynchronous ones on a
// thread that the group owns, synchronous ones on the caller's thread when all earlier operations have ended.
// (Short asynchronous ones may send before an earlier one has completed.) Point-to-point messages do not wait
// for operations; one more thread receives them from the beginning, and another moves the data of long ones.
//
// The first message between two ranks in an operation carries the call's fingerprint (operation, dtype,
// sizes, reduction, source); a difference is a DistNetworkError on both sides that shows both calls.
class DLAUNCH_EXPORT CollectiveBackend final : public Backend {
 public:
  explicit CollectiveBackend(std::unique_ptr<Transport> transport);
  ~CollectiveBackend() override;
  CollectiveBackend(const CollectiveBackend&) = delete;
  CollectiveBackend& operator=(const CollectiveBackend&) = delete;

  Work all_reduce(const Tensor& tensor, const Reduction& reduction, const Operation& operation) override;
  Work broadcast(const Tensor& tensor, int src, const Operation& operation) override;
  Work all_gather(std::span<const Tensor> outputs, const Tensor& input, const Operation& operation) override;
  Work barrier(const Operation& operation) override;
  Work reduce(const Tensor& tensor, int dst, const Reduction& reduction, const Operation& operation) override;
  Work gather(std::span<const Tensor> outputs, const Tensor& input, int dst,
              const Operation& operation) override;
  Work scatter(const Tensor& output, std::span<const Tensor> inputs, int src,
               const Operation& operation) override;
  Work reduce_scatter(const Tensor& output, std::span<const Tensor> inputs, const Reduction& reduction,
                      const Operation& operation) override;
  Work all_to_all(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                  const Operation& operation) override;
  Work all_reduce_coalesced(std::span<const Tensor> tensors, const Reduction& reduction,
                            const Operation& operation) override;
  Work send(const Tensor& tensor, int dst, Tag tag, const Operation& operation) override;
  Work recv(const Tensor& tensor, int src, Tag tag, const Operation& operation) override;
  bool takes_every_call() noexcept override;
  std::shared_ptr<std::byte> allocate_shared(std::size_t size, std::string& why) override;
  void check() override;
  void enter(std::uint64_t sequence) noexcept override;
  void explain_delay(std::uint64_t sequence) override;
  std::vector<int> departed() override;
  void abort(const std::string& reason) noexcept override;
  void shutdown() noexcept override;
  void leave(Deadline deadline) noexcept override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v1
}  // namespace dlaunch
