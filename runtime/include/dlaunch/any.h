// A value whose type is known at run time only, as the elements of a Python list are.
//
//   std::vector<dlaunch::Any> objects(3);                  // three times None
//   if (rank == 0) objects = {"foo", 12, std::map<int, int>{{1, 2}}};
//   dlaunch::broadcast_object_list(objects, 0);
//   to_string(objects);                                    // ['foo', 12, {1: 2}]
//   objects[0].as<std::string>();                          // foo
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "dlaunch/codec.h"
#include "dlaunch/error.h"
#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

class Any;
namespace codec {
template <class T>
concept NoAny = !std::same_as<std::remove_cvref_t<T>, Any>;
template <class T>
concept Text =
    std::convertible_to<T, std::string_view> && !std::same_as<std::remove_cvref_t<T>, std::nullptr_t>;
}  // namespace codec

// None, a bool, an integer of 64 bits, a double, a string (of any bytes), a list, a dict (ordered by key), or
// an object: a C++ value of another type that codec.h supports, stored as its bytes; as<T>() of the same type
// restores it. Copies share nothing. Not synchronised.
class DLAUNCH_EXPORT Any {
 public:
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, dict, object };
  using List = std::vector<Any>;
  using Dict = std::map<Any, Any>;

  Any() = default;  // None
  // From bool, numbers, text, std::vector and maps (their elements need not be Any), and objects. An integer
  // of more than 63 bits throws DistError.
  template <codec::NoAny T>
  Any(T&& value);  // NOLINT: not explicit, for lists of mixed types; the concept excludes copies

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(value_.index()); }
  [[nodiscard]] bool is_none() const { return kind() == Kind::none; }

  // T: bool, a number, std::string, List, Dict, std::vector or a map of types that as() accepts, or the type
  // of the object. An integer converts to floating point. DistError if the value is of another kind, a number
  // does not fit, or an object is of another type.
  template <class T>
  [[nodiscard]] T as() const;

  // The elements of a list and a dict, for reading and changing. DistError if the value is of another kind.
  [[nodiscard]] const List& list() const;
  [[nodiscard]] List& list();
  [[nodiscard]] const Dict& dict() const;
  [[nodiscard]] Dict& dict();

  // Numbers are compared by value, 1 and 1.0 are equal (a NaN is after all others and equal to itself);
  // objects by their types and bytes. Otherwise by kind, in the order above; a bool is not equal to a number.
  friend DLAUNCH_EXPORT std::weak_ordering operator<=>(const Any& a, const Any& b);
  friend bool operator==(const Any& a, const Any& b) { return std::is_eq(a <=> b); }

 private:
  struct Object {
    std::string bytes;  // as to_bytes() makes them
    template <class Archive>
    friend void serialize(Archive& archive, Object& object) {
      archive(object.bytes);
    }
  };
  // The order is that of Kind.
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Dict, Object>;

  template <class Archive>
  friend void serialize(Archive& archive, Any& any) {
    archive(any.value_);
  }
  friend DLAUNCH_EXPORT std::string to_string(const Any& any);
  static Value unsigned_integer(std::uint64_t value);
  template <class T>
  static Value value_of(T&& value);
  template <class T>
  [[nodiscard]] T number() const;
  [[noreturn]] void refuse(std::string_view wanted) const;

  Value value_;
};

DLAUNCH_EXPORT std::string_view to_string(Any::Kind kind);  // "integer"
// As Python prints it: "None", "'foo'", "12", "1.0", "{1: 2}"; an object as "<object of 24 bytes>".
DLAUNCH_EXPORT std::string to_string(const Any& any);

template <class T>
Any::Value Any::value_of(T&& value) {
  using Type = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Type, std::nullptr_t> || std::is_same_v<Type, std::monostate>) {
    return std::monostate();
  } else if constexpr (std::is_same_v<Type, bool>) {
    return value;
  } else if constexpr (std::unsigned_integral<Type>) {
    return unsigned_integer(value);
  } else if constexpr (std::integral<Type>) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::floating_point<Type>) {
    return static_cast<double>(value);
  } else if constexpr (codec::Text<T>) {
    return std::string(std::string_view(value));
  } else if constexpr (std::is_same_v<Type, List> || std::is_same_v<Type, Dict>) {
    return std::forward<T>(value);
  } else if constexpr (codec::IsVector<Type>::value) {
    List list;
    list.reserve(value.size());
    for (const auto& part : std::as_const(value)) {
      list.emplace_back(static_cast<const typename Type::value_type&>(part));
    }
    return list;
  } else if constexpr (codec::IsMap<Type>::value) {
    Dict dict;
    for (const auto& [key, mapped] : value) dict.emplace(Any(key), Any(mapped));
    return dict;
  } else {
    return Object{to_bytes(value)};
  }
}

template <codec::NoAny T>
// NOLINTNEXTLINE(bugprone-forwarding-reference-overload): as above
Any::Any(T&& value) : value_(value_of(std::forward<T>(value))) {}

template <class T>
T Any::number() const {
  if constexpr (std::floating_point<T>) {
    if (const double* const real = std::get_if<double>(&value_)) return static_cast<T>(*real);
  }
  const std::int64_t* const whole = std::get_if<std::int64_t>(&value_);
  if (!whole) refuse(std::floating_point<T> ? "a number" : "an integer");
  if constexpr (std::integral<T>) {
    if (!std::in_range<T>(*whole)) refuse("an integer of " + std::to_string(8 * sizeof(T)) + " bits");
  }
  return static_cast<T>(*whole);
}

template <class T>
T Any::as() const {
  if constexpr (std::is_same_v<T, Any>) {
    return *this;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (const bool* const truth = std::get_if<bool>(&value_)) return *truth;
    refuse("a boolean");
  } else if constexpr (std::integral<T> || std::floating_point<T>) {
    return number<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (const std::string* const text = std::get_if<std::string>(&value_)) return *text;
    refuse("a text");
  } else if constexpr (codec::IsVector<T>::value) {
    T result;
    for (const Any& part : list()) result.push_back(part.template as<typename T::value_type>());
    return result;
  } else if constexpr (codec::IsMap<T>::value) {
    T result;
    for (const auto& [key, mapped] : dict()) {
      result.emplace(key.template as<typename T::key_type>(), mapped.template as<typename T::mapped_type>());
    }
    return result;
  } else {
    if (const Object* const object = std::get_if<Object>(&value_)) return from_bytes<T>(object->bytes);
    refuse("an object");
  }
}

}  // namespace v1
}  // namespace dlaunch
