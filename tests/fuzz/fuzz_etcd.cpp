// libFuzzer: replies from the address of etcd, in pieces. The first byte is the length of the pieces.
#include <algorithm>

#include "agent/control/job_ending.h"
#include "agent/election/etcd_messages.h"
#include "agent/election/http_reply.h"
#include "store/base/base64.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void fuzz(FuzzInput input) {
  using namespace dlaunch::agent;
  const std::size_t piece = std::size_t{1} + input.choice();
  ByteSpan rest = input.bytes();
  const std::string body(as_text(rest));
  HttpReply reply;
  std::string read;
  while (!rest.empty()) {
    const ByteSpan now = rest.first(std::min(piece, rest.size()));
    rest = rest.subspan(now.size());
    if (!reply.append(now)) break;
    read += reply.take_body();
    require(read.size() <= body.size());
  }
  for (const std::string& text : {body, read}) {
    if (const auto granted = read_granted(text)) require(granted->lease != 0);
    (void)read_campaign(text);
    if (const auto ending = parse_job_ending(text)) require(parse_job_ending(to_text(*ending)).ok());
    (void)read_renewed(text);
    (void)read_watch_line(text);
    (void)read_trouble(500, text);
    if (const auto bytes = from_base64(text)) require(from_base64(to_base64(*bytes)) == bytes);
  }
}

}  // namespace
