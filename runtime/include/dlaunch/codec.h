// Objects as bytes: what the object collectives (object.h) send.
//
// Supported: bool, integers and floating point numbers, enumerations, std::string, std::vector, std::array,
// std::pair, std::tuple, std::optional, std::variant, std::monostate, std::set, std::unordered_set, std::map
// and std::unordered_map of supported types, and Any (any.h), a value whose type is known at run time only. A
// program's own type is supported if a function template beside it names its members, once for both
// directions and for the signature:
//
//   struct Step { int number; std::vector<float> losses; };
//   template <class Archive>
//   void serialize(Archive& archive, Step& step) { archive(step.number, step.losses); }
//
// A type may contain itself, for example in a std::vector: such objects may be nested 500 deep. An object may
// have 2^20 parts that take no bytes (std::tuple<>, a type without members).
//
// Received bytes are checked before they are used: they begin with a signature of the type, every length is
// compared with the bytes that are left, and no bytes may remain. Wrong bytes throw DistError.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "dlaunch/bytes.h"
#include "dlaunch/error.h"

namespace dlaunch {
inline namespace v1 {

namespace codec {

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// A bound that does not follow from the bytes.
inline constexpr int deepest = 500;

// FNV-1a over the parts of a type, in the order of the visit.
class Signature {
 public:
  void add(std::string_view part) {
    for (const char c : part) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

// The nesting depth of types with members.
class Nesting {
 public:
  explicit Nesting(int& depth) : depth_(depth) {
    if (depth_ == deepest) throw DistError("a serialised object is nested too deeply");
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

// Its address identifies the type.
template <class T>
inline char place_of = 0;

// Four visitors with one interface; each part of an object is passed to them.
class Sign {
 public:
  explicit Sign(Signature& signature) : signature_(signature) {}
  template <class... T>
  void operator()(T&... parts) {
    (visit(parts), ...);
  }

 private:
  template <class T>
  void visit(T& value);
  Signature& signature_;
  std::vector<const char*> inside_;  // the types with members that this one is part of
};

// Whether an object takes any bytes.
class Probe {
 public:
  template <class... T>
  void operator()(T&... parts) {
    (visit(parts), ...);
  }
  [[nodiscard]] bool found() const { return found_; }

 private:
  template <class T>
  void visit(T& value);
  bool found_ = false;
};

class Write {
 public:
  explicit Write(Writer& writer) : writer_(writer) {}
  [[nodiscard]] Writer& writer() const { return writer_; }
  template <class... T>
  void operator()(T&... parts) {
    (visit(parts), ...);
  }

 private:
  template <class T>
  void visit(T& value);
  Writer& writer_;
  int depth_ = 0;
};

class Read {
 public:
  explicit Read(Reader& reader) : reader_(reader) {}
  [[nodiscard]] Reader& reader() const { return reader_; }
  template <class... T>
  void operator()(T&... parts) {
    (visit(parts), ...);
  }

 private:
  template <class T>
  void visit(T& value);
  // Each element is written once: resize() would write zeros first.
  template <class T>
  static void assign(std::vector<T>& value, const Block& block) {
    if (reinterpret_cast<std::uintptr_t>(block.data.get()) % alignof(T) == 0) {
      const auto* const first = static_cast<const T*>(block.data.get());
      return value.assign(first, first + block.size / sizeof(T));
    }
    value.resize(block.size / sizeof(T));
    if (block.size > 0) std::memcpy(value.data(), block.data.get(), block.size);
  }
  // The value of the type with this number.
  template <std::size_t at = 0, class Variant>
  void read_alternative(Variant& value, std::size_t index) {
    if constexpr (at < std::variant_size_v<Variant>) {
      if (index != at) return read_alternative<at + 1>(value, index);
      visit(value.template emplace<at>());
    }
  }
  Reader& reader_;
  int depth_ = 0;
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsArray : std::false_type {};
template <class T, std::size_t n>
struct IsArray<std::array<T, n>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class K, class V>
struct IsMap<std::map<K, V>> : std::true_type {};
template <class K, class V>
struct IsMap<std::unordered_map<K, V>> : std::true_type {};
template <class T>
struct IsSet : std::false_type {};
template <class T>
struct IsSet<std::set<T>> : std::true_type {};
template <class T>
struct IsSet<std::unordered_set<T>> : std::true_type {};
template <class T>
struct IsVariant : std::false_type {};
template <class... T>
struct IsVariant<std::variant<T...>> : std::true_type {};
template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

// Calls `use` with a value of each of a variant's types, in their order.
template <class Variant, class Use>
void each_alternative(const Use& use) {
  [&]<std::size_t... i>(std::index_sequence<i...>) { (use(std::variant_alternative_t<i, Variant>{}), ...); }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

template <class T>
void Sign::visit(T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    signature_.add("?");
  } else if constexpr (Plain<T>) {
    signature_.add(std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u");
    signature_.add(std::to_string(sizeof(T)));
  } else if constexpr (std::is_same_v<T, std::string>) {
    signature_.add("s");
  } else if constexpr (IsVector<T>::value || IsOptional<T>::value) {
    signature_.add(IsVector<T>::value ? "v(" : "o(");
    typename T::value_type part{};
    visit(part);
    signature_.add(")");
  } else if constexpr (IsArray<T>::value) {
    signature_.add("a" + std::to_string(value.size()) + "(");
    typename T::value_type part{};
    visit(part);
    signature_.add(")");
  } else if constexpr (IsMap<T>::value) {
    signature_.add("m(");
    typename T::key_type key{};
    typename T::mapped_type mapped{};
    (*this)(key, mapped);
    signature_.add(")");
  } else if constexpr (IsSet<T>::value) {
    signature_.add("e(");
    typename T::key_type element{};
    visit(element);
    signature_.add(")");
  } else if constexpr (IsVariant<T>::value) {
    signature_.add("w(");
    each_alternative<T>([this](auto alternative) { this->visit(alternative); });
    signature_.add(")");
  } else if constexpr (std::is_same_v<T, std::monostate>) {
    signature_.add("n");
  } else if constexpr (IsTuple<T>::value) {
    signature_.add("t(");
    std::apply([this](auto&... parts) { (*this)(parts...); }, value);
    signature_.add(")");
  } else if (const auto at = std::find(inside_.rbegin(), inside_.rend(), &place_of<T>);
             at != inside_.rend()) {
    signature_.add("^" + std::to_string(at - inside_.rbegin()));  // its own part: so many further out
  } else {
    inside_.push_back(&place_of<T>);
    signature_.add("{");
    serialize(*this, value);
    signature_.add("}");
    inside_.pop_back();
  }
}

template <class T>
void Probe::visit(T& value) {
  if constexpr (IsArray<T>::value) {
    for (auto& part : value) visit(part);
  } else if constexpr (IsTuple<T>::value) {
    std::apply([this](auto&... parts) { (*this)(parts...); }, value);
  } else if constexpr (Plain<T> || std::is_same_v<T, std::string> || IsVector<T>::value ||
                       IsOptional<T>::value || IsMap<T>::value || IsSet<T>::value || IsVariant<T>::value) {
    found_ = true;
  } else if constexpr (!std::is_same_v<T, std::monostate>) {
    serialize(*this, value);
  }
}

// Objects of these types take no bytes.
template <class... T>
bool takes_no_bytes() {
  static const bool none = [] {
    std::tuple<T...> some{};
    Probe probe;
    probe(some);
    return !probe.found();
  }();
  return none;
}

// How many elements a container of T... has.
template <class... T>
void write_count(Writer& writer, std::size_t count) {
  if (takes_no_bytes<T...>()) {
    writer.count(count);
  } else {
    writer.length(count);
  }
}
template <class... T>
std::size_t read_count(Reader& reader) {
  return takes_no_bytes<T...>() ? reader.count() : reader.length();
}

template <class T>
void Write::visit(T& value) {
  using Type = std::remove_const_t<T>;
  if constexpr (Plain<Type>) {
    writer_.raw(&value, sizeof value);
  } else if constexpr (std::is_same_v<Type, std::string>) {
    writer_.length(value.size());
    writer_.plain(value.data(), value.size());
  } else if constexpr (IsVector<Type>::value) {
    write_count<typename Type::value_type>(writer_, value.size());
    if constexpr (Plain<typename Type::value_type> && !std::is_same_v<typename Type::value_type, bool>) {
      writer_.plain(value.data(), value.size() * sizeof(typename Type::value_type));
    } else {
      const Type& parts = value;  // or those of std::vector<bool> would be no bool
      for (const auto& part : parts) visit(part);
    }
  } else if constexpr (IsArray<Type>::value) {
    for (auto& part : value) visit(part);
  } else if constexpr (IsOptional<Type>::value) {
    const bool there = value.has_value();
    visit(there);
    if (there) visit(*value);
  } else if constexpr (IsMap<Type>::value) {
    write_count<typename Type::key_type, typename Type::mapped_type>(writer_, value.size());
    for (auto& [key, mapped] : value) (*this)(key, mapped);
  } else if constexpr (IsSet<Type>::value) {
    write_count<typename Type::key_type>(writer_, value.size());
    for (const auto& element : value) visit(element);
  } else if constexpr (IsVariant<Type>::value) {
    if (value.valueless_by_exception()) throw DistError("a variant without a value cannot be serialised");
    const auto index = static_cast<std::uint32_t>(value.index());
    visit(index);
    std::visit([this](auto& alternative) { this->visit(alternative); }, value);
  } else if constexpr (IsTuple<Type>::value) {
    std::apply([this](auto&... parts) { (*this)(parts...); }, value);
  } else if constexpr (!std::is_same_v<Type, std::monostate>) {
    const Nesting inside(depth_);
    // serialize() names the members for both directions; writing does not change them.
    serialize(*this, const_cast<Type&>(value));
  }
}

template <class T>
void Read::visit(T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    std::uint8_t byte = 0;
    reader_.raw(&byte, 1);
    if (byte > 1) throw DistError("a serialised object has a truth value that is none");
    value = byte == 1;
  } else if constexpr (Plain<T>) {
    reader_.raw(&value, sizeof value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = reader_.plain(reader_.length()).view();
  } else if constexpr (IsVector<T>::value) {
    const std::size_t count = read_count<typename T::value_type>(reader_);
    value.clear();
    if constexpr (Plain<typename T::value_type> && !std::is_same_v<typename T::value_type, bool>) {
      reader_.require(count, sizeof(typename T::value_type));
      return assign(value, reader_.plain(count * sizeof(typename T::value_type)));
    }
    for (std::size_t i = 0; i < count; ++i) {
      typename T::value_type part{};
      visit(part);
      value.push_back(std::move(part));
    }
  } else if constexpr (IsArray<T>::value) {
    for (auto& part : value) visit(part);
  } else if constexpr (IsOptional<T>::value) {
    bool there = false;
    visit(there);
    value.reset();
    if (there) visit(value.emplace());
  } else if constexpr (IsMap<T>::value) {
    const std::size_t count = read_count<typename T::key_type, typename T::mapped_type>(reader_);
    value.clear();
    for (std::size_t i = 0; i < count; ++i) {
      typename T::key_type key{};
      typename T::mapped_type mapped{};
      (*this)(key, mapped);
      if (!value.emplace(std::move(key), std::move(mapped)).second) {
        throw DistError("a serialised map has a key twice");
      }
    }
  } else if constexpr (IsSet<T>::value) {
    const std::size_t count = read_count<typename T::key_type>(reader_);
    value.clear();
    for (std::size_t i = 0; i < count; ++i) {
      typename T::key_type element{};
      visit(element);
      if (!value.insert(std::move(element)).second) {
        throw DistError("a serialised set has an element twice");
      }
    }
  } else if constexpr (IsVariant<T>::value) {
    std::uint32_t index = 0;
    visit(index);
    if (index >= std::variant_size_v<T>) {
      throw DistError("a serialised variant has a type that is none of its own");
    }
    read_alternative(value, index);
  } else if constexpr (IsTuple<T>::value) {
    std::apply([this](auto&... parts) { (*this)(parts...); }, value);
  } else if constexpr (!std::is_same_v<T, std::monostate>) {
    const Nesting inside(depth_);
    serialize(*this, value);
  }
}

template <class T>
std::uint64_t signature_of() {
  Signature signature;
  T value{};
  Sign sign(signature);
  sign(value);
  return signature.hash();
}

}  // namespace codec

template <class T>
std::string to_bytes(const T& object) {
  codec::Writer writer;
  const std::uint64_t signature = codec::signature_of<T>();
  writer.raw(&signature, sizeof signature);
  codec::Write write(writer);
  write(object);
  return writer.take();
}

// Throws DistError if the bytes are not exactly those of a T.
template <class T>
T from_bytes(std::string_view bytes) {
  codec::Reader reader(bytes);
  std::uint64_t signature = 0;
  reader.raw(&signature, sizeof signature);
  if (signature != codec::signature_of<T>()) throw DistError("a serialised object is of another type");
  T object{};
  codec::Read read(reader);
  read(object);
  if (!reader.at_end()) throw DistError("a serialised object is followed by bytes that belong to nothing");
  return object;
}

}  // namespace v1
}  // namespace dlaunch
