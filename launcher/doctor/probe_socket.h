// A TCP connection that is measured. Blocking; each call has a deadline. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/base/address.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// This host's wall clock, in nanoseconds since 1970: what the ends of such a connection exchange.
std::int64_t wall_clock_ns();

class ProbeSocket {
 public:
  ProbeSocket() = default;  // not open
  ~ProbeSocket();
  ProbeSocket(const ProbeSocket&) = delete;
  ProbeSocket& operator=(const ProbeSocket&) = delete;

  // Tries each address of the name until the deadline. `packet`: the most bytes of an IP packet that this
  // end sends; 0: as the kernel likes. Failures of these functions have only `why`.
  Result<void> connect(const Address& address, TimePoint deadline, int packet = 0);
  Result<void> send(std::string_view bytes, TimePoint deadline);
  Result<void> receive(char* into, std::size_t size, TimePoint deadline);

  // The most bytes of an IP packet on this way, as the kernel believes; 0: not known.
  [[nodiscard]] int mtu() const;
  [[nodiscard]] std::int64_t retransmissions() const;

 private:
  Result<void> await(short events, TimePoint deadline) const;
  void close();

  int fd_ = -1;
};

}  // namespace dlaunch::launcher
