#include "dlaunch/any.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "store/base/hex.h"
#include "store/base/overloaded.h"

namespace dlaunch {
using namespace store;
inline namespace v1 {

namespace {

std::weak_ordering compare(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) <=> std::isnan(b);
  return a < b   ? std::weak_ordering::less
         : a > b ? std::weak_ordering::greater
                 : std::weak_ordering::equivalent;
}

// By value: a double does not hold every whole number.
std::weak_ordering compare(std::int64_t whole, double real) {
  constexpr double beyond = 0x1p63;
  if (std::isnan(real) || real >= beyond) return std::weak_ordering::less;
  if (real < -beyond) return std::weak_ordering::greater;
  const double below = std::floor(real);
  const auto order = whole <=> static_cast<std::int64_t>(below);
  return std::is_eq(order) && real > below ? std::weak_ordering::less : std::weak_ordering(order);
}

std::weak_ordering reversed(std::weak_ordering order) {
  if (std::is_eq(order)) return order;
  return std::is_lt(order) ? std::weak_ordering::greater : std::weak_ordering::less;
}

// As Python prints it: the shortest text of the number, and never that of an integer.
std::string text_of(double number) {
  if (!std::isfinite(number)) return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  std::array<char, 64> text{};
  char* const begin = text.data();
  char* end = std::to_chars(begin, begin + text.size(), number, std::chars_format::scientific).ptr;
  const int exponent = std::atoi(std::find(begin, end, 'e') + 1);
  constexpr int least = -4;  // outside of these Python writes the exponent
  constexpr int most = 15;
  if (exponent < least || exponent > most) return {begin, end};
  end = std::to_chars(begin, begin + text.size(), number, std::chars_format::fixed).ptr;
  std::string fixed(begin, end);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

std::string as_python_literal(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string result(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (c == '\\' || c == quote) {
      result += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\x" + to_hex({&c, 1});
    } else {
      result += c;
    }
  }
  return result + quote;
}

}  // namespace

std::weak_ordering operator<=>(const Any& a, const Any& b) {
  using Kind = Any::Kind;
  if (a.kind() == Kind::integer && b.kind() == Kind::real) {
    return compare(std::get<std::int64_t>(a.value_), std::get<double>(b.value_));
  }
  if (a.kind() == Kind::real && b.kind() == Kind::integer) {
    return reversed(compare(std::get<std::int64_t>(b.value_), std::get<double>(a.value_)));
  }
  if (a.kind() != b.kind()) return a.kind() <=> b.kind();
  return std::visit(
      [&b]<class T>(const T& left) -> std::weak_ordering {
        const T& right = std::get<T>(b.value_);
        if constexpr (std::is_same_v<T, double>) {
          return compare(left, right);
        } else if constexpr (std::is_same_v<T, Any::Object>) {
          return left.bytes <=> right.bytes;
        } else {
          return left <=> right;
        }
      },
      a.value_);
}

Any::Value Any::unsigned_integer(std::uint64_t value) {
  if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
  throw DistError("an Any holds whole numbers up to 2^63 - 1, not " + std::to_string(value));
}

const Any::List& Any::list() const {
  if (const List* const list = std::get_if<List>(&value_)) return *list;
  refuse("a list");
}
Any::List& Any::list() { return const_cast<List&>(std::as_const(*this).list()); }

const Any::Dict& Any::dict() const {
  if (const Dict* const dict = std::get_if<Dict>(&value_)) return *dict;
  refuse("a dict");
}
Any::Dict& Any::dict() { return const_cast<Dict&>(std::as_const(*this).dict()); }

void Any::refuse(std::string_view wanted) const {
  std::string what(to_string(kind()));
  if (kind() == Kind::boolean || kind() == Kind::integer || kind() == Kind::real) {
    what += " " + to_string(*this);
  }
  throw DistError("an Any that holds " + what + " was asked for " + std::string(wanted));
}

std::string_view to_string(Any::Kind kind) {
  constexpr std::array<std::string_view, 8> names = {"none", "boolean", "integer", "real",
                                                     "text", "list",    "dict",    "object"};
  return names[static_cast<std::size_t>(kind)];
}

std::string to_string(const Any& any) {
  return std::visit(Overloaded{
                        [](std::monostate) { return std::string("None"); },
                        [](bool truth) { return std::string(truth ? "True" : "False"); },
                        [](std::int64_t number) { return std::to_string(number); },
                        [](double number) { return text_of(number); },
                        [](const std::string& text) { return as_python_literal(text); },
                        [](const Any::List& list) {
                          std::string parts;
                          for (const Any& part : list) parts += (parts.empty() ? "" : ", ") + to_string(part);
                          return "[" + parts + "]";
                        },
                        [](const Any::Dict& dict) {
                          std::string parts;
                          for (const auto& [key, mapped] : dict) {
                            parts += (parts.empty() ? "" : ", ") + to_string(key) + ": " + to_string(mapped);
                          }
                          return "{" + parts + "}";
                        },
                        [](const Any::Object& object) {
                          return "<object of " + std::to_string(object.bytes.size()) + " bytes>";
                        },
                    },
                    any.value_);
}

}  // namespace v1
}  // namespace dlaunch
