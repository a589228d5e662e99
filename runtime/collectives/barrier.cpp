#include "runtime/collectives/barrier.h"

namespace dlaunch::internal {

// Dissemination: in round k each rank notifies the rank 2^k to the right that it, and all ranks that it knows
// of, have arrived. (D. Hensgen, R. Finkel, U. Manber: "Two algorithms for barrier synchronization", 1988.)
void barrier(Exchange& exchange) {
  const int rank = exchange.rank();
  const int size = exchange.size();
  for (int distance = 1; distance < size; distance *= 2) {
    Exchange::Receive message = exchange.receive((rank + size - distance) % size, {});
    Exchange::Send own = exchange.send((rank + distance) % size, {});
    message.wait();
    own.wait();
  }
}

}  // namespace dlaunch::internal
