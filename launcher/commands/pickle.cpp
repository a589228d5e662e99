#include "launcher/commands/pickle.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;

// Opcodes, with the names of pickletools.py, which describes their arguments.
constexpr std::string_view proto_2 = "\x80\x02";
constexpr std::string_view none = "N";
constexpr std::string_view newtrue = "\x88";
constexpr std::string_view newfalse = "\x89";
constexpr std::string_view binint = "J";
constexpr std::string_view long1 = "\x8a";
constexpr std::string_view binfloat = "G";
constexpr std::string_view binunicode = "X";
constexpr std::string_view empty_list = "]";
constexpr std::string_view empty_dict = "}";
constexpr std::string_view mark_opcode = "(";
constexpr std::string_view appends = "e";
constexpr std::string_view setitems = "u";
constexpr std::string_view stop_opcode = ".";

void add_little_endian(std::uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void add_integer(std::int64_t value, std::string& out) {
  using Small = std::numeric_limits<std::int32_t>;
  if (value >= Small::min() && value <= Small::max()) {
    out += binint;
    return add_little_endian(static_cast<std::uint64_t>(value), 4, out);
  }
  out += long1;
  out.push_back(8);
  add_little_endian(static_cast<std::uint64_t>(value), 8, out);
}

// The ninth byte keeps a large number positive.
void add_unsigned(std::uint64_t value, std::string& out) {
  if (value <= std::numeric_limits<std::int64_t>::max())
    return add_integer(static_cast<std::int64_t>(value), out);
  out += long1;
  out.push_back(9);
  add_little_endian(value, 8, out);
  out.push_back(0);
}

void add_float(double value, std::string& out) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  out += binfloat;
  for (int i = 7; i >= 0; --i) out.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
}

// Converts to JSON text and back, which replaces invalid UTF-8.
void add_text(const std::string& text, std::string& out) {
  const std::string clean =
      Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
  out += binunicode;
  add_little_endian(clean.size(), 4, out);
  out += clean;
}

void add(const Json& value, std::string& out);

void add_list(const Json& list, std::string& out) {
  out += empty_list;
  if (list.empty()) return;
  out += mark_opcode;
  for (const Json& element : list) add(element, out);
  out += appends;
}

void add_dict(const Json& dict, std::string& out) {
  out += empty_dict;
  if (dict.empty()) return;
  out += mark_opcode;
  for (const auto& [key, element] : dict.items()) {
    add_text(key, out);
    add(element, out);
  }
  out += setitems;
}

void add(const Json& value, std::string& out) {
  switch (value.type()) {
    case Json::value_t::object:
      return add_dict(value, out);
    case Json::value_t::array:
      return add_list(value, out);
    case Json::value_t::string:
      return add_text(value.get<std::string>(), out);
    case Json::value_t::boolean:
      out += value.get<bool>() ? newtrue : newfalse;
      return;
    case Json::value_t::number_integer:
      return add_integer(value.get<std::int64_t>(), out);
    case Json::value_t::number_unsigned:
      return add_unsigned(value.get<std::uint64_t>(), out);
    case Json::value_t::number_float:
      return add_float(value.get<double>(), out);
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      out += none;
      return;
  }
}

}  // namespace

std::string pickled(const Json& value) {
  std::string out(proto_2);
  add(value, out);
  out += stop_opcode;
  return out;
}

}  // namespace dlaunch::launcher
