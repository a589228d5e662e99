#include "launcher/doctor/link_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "launcher/doctor/gpu_json.h"
#include "store/base/sanitize.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_text = 300;
constexpr int most_port = 65'535;
constexpr int most_packet = 1 << 20;
constexpr double most_speed = 1e15;

// Reads the fields of one object. After a bad field all is bad.
class Fields {
 public:
  explicit Fields(std::string_view line) : object_(Json::parse(line, nullptr, false)) {
    if (!object_.is_object()) why_ = "it is no JSON object";
  }

  std::string text(const char* name) {
    const Json* const field = find(name);
    if (field == nullptr) return "";
    if (!field->is_string()) return bad<std::string>(name);
    return shortened(sanitize_for_terminal(field->get_ref<const std::string&>()), longest_text);
  }

  std::int64_t integer(const char* name, std::int64_t least, std::int64_t most) {
    const Json* const field = find(name);
    if (field == nullptr) return 0;
    if (!field->is_number_integer()) return bad<std::int64_t>(name);
    // As unsigned, a number may not fit into 64 signed bits.
    if (field->is_number_unsigned() && field->get<std::uint64_t>() > static_cast<std::uint64_t>(most))
      return bad<std::int64_t>(name);
    const auto value = field->get<std::int64_t>();
    return value < least || value > most ? bad<std::int64_t>(name) : value;
  }
  int port(const char* name) { return static_cast<int>(integer(name, 0, most_port)); }
  int packet(const char* name) { return static_cast<int>(integer(name, 0, most_packet)); }
  std::int64_t nanoseconds(const char* name, bool may_be_negative) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    return integer(name, may_be_negative ? -most : 0, most);
  }

  double number(const char* name) {
    const Json* const field = find(name);
    if (field == nullptr) return 0;
    if (!field->is_number()) return bad<double>(name);
    const auto value = field->get<double>();
    return std::isfinite(value) && value >= 0 && value <= most_speed ? value : bad<double>(name);
  }

  bool truth(const char* name) {
    const Json* const field = find(name);
    if (field == nullptr) return false;
    return field->is_boolean() ? field->get<bool>() : bad<bool>(name);
  }

  PortTry port_try(const char* state, const char* why) {
    PortTry out;
    const std::string word = text(state);
    out.why = text(why);
    if (word == "open") {
      out.state = PortTry::State::open;
    } else if (word == "failed") {
      out.state = PortTry::State::failed;
    } else if (word != "not tried") {
      bad<int>(state);
    }
    return out;
  }

  [[nodiscard]] std::string why() const { return why_; }

 private:
  const Json* find(const char* name) {
    if (!why_.empty()) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    bad<int>(name);
    return nullptr;
  }
  template <class T>
  T bad(const char* name) {
    if (why_.empty()) why_ = std::string("its field ") + name + " is missing or bad";
    return T{};
  }

  Json object_;
  std::string why_;
};

template <class T>
Result<T> finished(T value, const Fields& in) {
  if (in.why().empty()) return value;
  return Error{ErrorKind::invalid, "a line of a probe is not understood", "", in.why(),
               "is the dlaunch there another version?"};
}

const char* word_of(PortTry::State state) {
  switch (state) {
    case PortTry::State::open:
      return "open";
    case PortTry::State::failed:
      return "failed";
    case PortTry::State::not_tried:
      break;
  }
  return "not tried";
}

std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json object_of(const LinkMeasurement& found) {
  return {{"job_port", word_of(found.job_port.state)},
          {"job_port_why", found.job_port.why},
          {"data_port", word_of(found.data_port.state)},
          {"data_port_why", found.data_port.why},
          {"broke_off", found.broke_off},
          {"mtu", found.mtu},
          {"large_packets_pass", found.large_packets_pass},
          {"passing", found.passing},
          {"latency_ns", found.latency_ns},
          {"bytes_per_second", found.bytes_per_second},
          {"retransmissions", found.retransmissions},
          {"clock_ahead_ns", found.clock_ahead_ns},
          {"clock_error_ns", found.clock_error_ns}};
}

}  // namespace

std::string to_json(const HostFacts& facts) {
  return line_of({{"version", facts.version},
                  {"protocol", facts.protocol},
                  {"key", facts.key},
                  {"job_port", facts.job_port},
                  {"why_not", facts.why_not},
                  {"data_port", facts.data_port}});
}

std::string to_json(const ProbeTarget& target) {
  return line_of({{"host", target.host},
                  {"job_port", target.job_port},
                  {"data_port", target.data_port},
                  {"key", target.key}});
}

std::string to_json(const LinkMeasurement& found) { return line_of(object_of(found)); }

Result<HostFacts> host_facts_from(std::string_view line) {
  constexpr int most_protocol = 255;
  Fields in(line);
  HostFacts facts;
  facts.version = in.text("version");
  facts.protocol = static_cast<int>(in.integer("protocol", 0, most_protocol));
  facts.key = in.text("key");
  facts.job_port = in.port("job_port");
  facts.why_not = in.text("why_not");
  facts.data_port = in.port("data_port");
  return finished(std::move(facts), in);
}

Result<ProbeTarget> probe_target_from(std::string_view line) {
  Fields in(line);
  ProbeTarget target;
  target.host = in.text("host");
  target.job_port = in.port("job_port");
  target.data_port = in.port("data_port");
  target.key = in.text("key");
  return finished(std::move(target), in);
}

Result<LinkMeasurement> link_measurement_from(std::string_view line) {
  Fields in(line);
  LinkMeasurement found;
  found.job_port = in.port_try("job_port", "job_port_why");
  found.data_port = in.port_try("data_port", "data_port_why");
  found.broke_off = in.text("broke_off");
  found.mtu = in.packet("mtu");
  found.large_packets_pass = in.truth("large_packets_pass");
  found.passing = in.packet("passing");
  found.latency_ns = in.nanoseconds("latency_ns", false);
  found.bytes_per_second = in.number("bytes_per_second");
  found.retransmissions = in.integer("retransmissions", 0, std::numeric_limits<std::int64_t>::max());
  found.clock_ahead_ns = in.nanoseconds("clock_ahead_ns", true);
  found.clock_error_ns = in.nanoseconds("clock_error_ns", false);
  return finished(std::move(found), in);
}

std::string report_json(const Findings& findings, const GpuFacts& gpus, const PeerReport& peers) {
  Json list = Json::array();
  for (const Finding& one : findings)
    list.push_back({{"grade", name_of(one.grade)}, {"text", one.text}, {"to_do", one.to_do}});
  Json hosts = Json::array();
  for (const CheckedHost& host : peers.hosts) {
    Json one{{"name", host.name}, {"why", host.why}};
    if (host.facts) {
      one["version"] = host.facts->version;
      one["protocol"] = host.facts->protocol;
      one["listens_at"] = {host.facts->job_port, host.facts->data_port};
    }
    hosts.push_back(std::move(one));
  }
  Json links = Json::array();
  for (const CheckedLink& link : peers.links) {
    Json one = link.found ? object_of(*link.found) : Json::object();
    one["from"] = peers.hosts[link.from].name;
    one["to"] = peers.hosts[link.to].name;
    one["why"] = link.why;
    links.push_back(std::move(one));
  }
  return line_of({{"findings", std::move(list)},
                  {"gpu", Json::parse(gpu_json(gpus))},
                  {"hosts", std::move(hosts)},
                  {"links", std::move(links)}}) +
         "\n";
}

}  // namespace dlaunch::launcher
