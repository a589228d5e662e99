// libFuzzer: any line of a probe on another host, any order to one, any bytes of a connection to one. What is
// read is bounded and safe for a terminal, and is written and read again as the same; a connection gets
// answers only after the key.

#include <algorithm>
#include <cctype>
#include <string>

#include "launcher/doctor/link_text.h"
#include "launcher/doctor/link_verdict.h"
#include "launcher/doctor/peer_list.h"
#include "launcher/doctor/probe_session.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::launcher;  // NOLINT(google-build-using-namespace)

void require_harmless(const std::string& text) {
  require(text.size() <= 300 && text.find_first_of("\n\r\x1b") == std::string::npos);
}

void fuzz_lines(const std::string& text) {
  if (const auto facts = host_facts_from(text)) {
    require_harmless(facts->why_not);
    require_harmless(facts->version);
    require(*host_facts_from(to_json(*facts)) == *facts);
  }
  if (const auto target = probe_target_from(text)) require(*probe_target_from(to_json(*target)) == *target);
  if (const auto found = link_measurement_from(text)) {
    require_harmless(found->broke_off);
    require(*link_measurement_from(to_json(*found)) == *found);
    PeerReport report;
    report.hosts = {{"a", HostFacts{}, ""}, {"b", HostFacts{}, ""}};
    report.links = {{0, 1, found.value(), ""}, {1, 0, found.value(), ""}};
    require(!describe(judge(report)).empty() && !table(report).empty() &&
            !report_json({}, {}, report).empty());
  }
}

void fuzz_connection(const std::string& text) {
  const std::string key = "0123";
  ProbeSession whole(key);
  const std::string answers = whole.take(text, 1);
  require(answers.empty() || text.starts_with(key));
  require(answers.size() <= text.size());  // a request has a head of eight bytes
  // Cut anywhere, the bytes get the same answers.
  ProbeSession cut(key);
  const std::size_t half = text.size() / 2;
  std::string pieces = cut.take(text.substr(0, half), 1);
  pieces += cut.take(text.substr(half), 1);
  require(pieces == answers && cut.is_bad() == whole.is_bad());
}

void fuzz(FuzzInput input) {
  const std::string text(input.text());
  fuzz_lines(text);
  fuzz_connection(text);
  if (const auto peers = parse_peers(text)) {
    for (const auto& host : peers->hosts) require(!host.name.empty() && host.name.front() != '-');
    for (const auto& port : peers->ports) require(port.port != 0);
  }
}

}  // namespace
