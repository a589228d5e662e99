#include "agent/election/etcd_messages.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "store/base/base64.h"

namespace dlaunch::agent {
namespace {

using Json = nlohmann::json;

Error malformed(std::string why) {
  return {ErrorKind::invalid, "etcd's answer cannot be read", "", std::move(why), ""};
}

// Numbers come as texts; a number that is 0 is left out.
std::int64_t number(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

const Json& part(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::optional<std::string> value_of(const Json& pair) {
  const Json& value = part(pair, "value");
  return value.is_string() ? from_base64(value.get_ref<const std::string&>()) : std::nullopt;
}

Json parsed(std::string_view text) { return Json::parse(text, nullptr, false); }

std::string text_of(LeaseId lease) { return std::to_string(lease); }

// The key under which a leader leaves the job's ending.
std::string place_of(std::string_view key) { return to_base64(std::string(key) + "/ended"); }

// The first value in the answer to the request of this number in a transaction.
std::optional<std::string> first_value(const Json& transaction, std::size_t number) {
  const Json& responses = part(transaction, "responses");
  if (!responses.is_array() || responses.size() <= number) return std::nullopt;
  const Json& pairs = part(part(responses[number], "response_range"), "kvs");
  return pairs.is_array() && !pairs.empty() ? value_of(pairs.front()) : std::nullopt;
}

}  // namespace

EtcdRequest grant_lease(Duration ttl) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(ttl).count();
  return {"/v3/lease/grant", Json{{"TTL", std::to_string(seconds)}}.dump()};
}

EtcdRequest campaign(std::string_view key, std::string_view value, LeaseId lease) {
  const std::string name = to_base64(key);
  const Json put{{"requestPut", {{"key", name}, {"value", to_base64(value)}, {"lease", text_of(lease)}}}};
  const Json get{{"requestRange", {{"key", name}}}};
  const Json is_free{{"key", name}, {"target", "CREATE"}, {"result", "EQUAL"}, {"createRevision", "0"}};
  return {"/v3/kv/txn", Json{{"compare", Json::array({is_free})},
                             {"success", Json::array({put, {{"requestRange", {{"key", place_of(key)}}}}})},
                             {"failure", Json::array({get})}}
                            .dump()};
}

EtcdRequest leave_behind(std::string_view key, std::string_view value, std::string_view text, LeaseId lease) {
  const Json put{
      {"requestPut", {{"key", place_of(key)}, {"value", to_base64(text)}, {"lease", text_of(lease)}}}};
  const Json leads{
      {"key", to_base64(key)}, {"target", "VALUE"}, {"result", "EQUAL"}, {"value", to_base64(value)}};
  return {"/v3/kv/txn", Json{{"compare", Json::array({leads})}, {"success", Json::array({put})}}.dump()};
}

EtcdRequest renew_lease(LeaseId lease) {
  return {"/v3/lease/keepalive", Json{{"ID", text_of(lease)}}.dump()};
}
EtcdRequest revoke_lease(LeaseId lease) { return {"/v3/lease/revoke", Json{{"ID", text_of(lease)}}.dump()}; }

EtcdRequest watch_key(std::string_view key, std::int64_t since_revision) {
  const Json create{{"key", to_base64(key)}, {"start_revision", std::to_string(since_revision)}};
  return {"/v3/watch", Json{{"create_request", create}}.dump()};
}

Result<LeaseGranted> read_granted(std::string_view body) {
  const LeaseId lease = number(parsed(body), "ID");
  if (lease == 0) return malformed("it grants no lease");
  return LeaseGranted{lease};
}

Result<CampaignEnded> read_campaign(std::string_view body) {
  const Json json = parsed(body);
  const std::int64_t revision = number(part(json, "header"), "revision");
  if (revision == 0) return malformed("it has no revision");
  if (part(json, "succeeded") == true) return CampaignEnded{true, "", revision, first_value(json, 1)};
  const auto value = first_value(json, 0);
  if (!value) return malformed("it does not name the holder of the key");
  return CampaignEnded{false, *value, revision};
}

Result<LeaseRenewed> read_renewed(std::string_view body) {
  const Json json = parsed(body);
  const Json& result = part(json, "result");
  if (!result.is_object()) return malformed("it does not mention the lease");
  return LeaseRenewed{number(result, "TTL") > 0};
}

Result<std::optional<KeyChanged>> read_watch_line(std::string_view line) {
  const Json json = parsed(line);
  const Json& result = part(json, "result");
  if (!result.is_object()) return malformed("the watch was ended");
  if (part(result, "canceled") == true) return malformed("the watch was cancelled");
  const Json& events = part(result, "events");
  if (!events.is_array() || events.empty()) return std::optional<KeyChanged>{};
  const Json& last = events.back();
  if (part(last, "type") == "DELETE") return std::optional(KeyChanged{});
  auto value = value_of(part(last, "kv"));
  if (!value) return malformed("a change has no value");
  return std::optional(KeyChanged{std::move(value)});
}

std::string read_trouble(int status, std::string_view body) {
  const Json json = parsed(body);
  for (const char* name : {"message", "error"}) {
    const Json& words = part(json, name);
    if (words.is_string()) return words.get<std::string>();
  }
  return "etcd answered with status " + std::to_string(status);
}

}  // namespace dlaunch::agent
