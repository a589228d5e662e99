// What a worker answers when it is asked for PyTorch's flight recorder, and what a debugger writes of it.
// What is taken from it keeps the limits of the agents' message.
#include <string>
#include <string_view>

#include "agent/control/messages.h"
#include "launcher/commands/innermost_frames.h"
#include "launcher/commands/torch_flight.h"
#include "launcher/commands/worker_socket.h"
#include "tests/fuzz/fuzz_target.h"

using namespace dlaunch;

namespace {

void read_record(std::string_view json) {
  const launcher::RecordedRank whose{3, 8, 1'795'655'259'000'000'000};
  const auto flight = launcher::read_torch_flight(json, whose);
  const auto file = launcher::torch_flight_file(json, whose);
  require(flight.ok() == file.ok());
  if (!flight) return;
  require(flight->operations > 0 || flight->groups.empty());
  agent::Inspected inspected{0, flight->groups};
  const std::string frame = agent::encode(inspected);
  auto reader = agent::FrameReader::from_coordinator();
  reader.append(store::as_byte_span(frame));
  const auto read = reader.next();
  require(read.ok() && read->has_value() && **read == agent::Message(inspected));
}

void fuzz(FuzzInput input) {
  const std::string_view text = input.text();
  read_record(text);
  if (const auto body = launcher::body_of(text)) read_record(*body);
  for (const auto& frames : {launcher::frames_of_py_spy(text), launcher::frames_of_gdb(text)})
    require(frames.size() <= launcher::shown_frames);
}

}  // namespace
