// How the arguments and results of remote calls (rpc.h) become bytes, and what their receiver keeps of them.
// Programs do not use it themselves.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlaunch/codec.h"

namespace dlaunch {
inline namespace v1 {
namespace rpc {
namespace rpc_detail {

// As what an argument is sent.
template <class T>
struct Sent {
  using type = std::remove_cvref_t<T>;
};
template <>
struct Sent<std::string_view> {
  using type = std::string;
};
template <class T>
struct Sent<std::span<const T>> {
  using type = std::vector<T>;
};
template <class T>
using SentAs = typename Sent<std::remove_cvref_t<T>>::type;

// An argument that is a view, at its receiver: of the bytes that have arrived if they are a block.
template <class T>
class ReceivedView {
 public:
  using View = std::conditional_t<std::is_same_v<T, char>, std::string_view, std::span<const T>>;
  [[nodiscard]] View view() const {
    if (!block_.data) return View(copy_.data(), copy_.size());
    return View(static_cast<const T*>(block_.data.get()), block_.size / sizeof(T));
  }

 private:
  friend void serialize(codec::Read& read, ReceivedView& view) {
    if constexpr (codec::Plain<T> && !std::is_same_v<T, bool>) {
      codec::Reader& reader = read.reader();
      const std::size_t count = reader.length();
      reader.require(count, sizeof(T));
      view.block_ = reader.plain(count * sizeof(T));
      if (view.block_.data.use_count() > 0) return;
      view.copy_.resize(count);
      if (count > 0) std::memcpy(view.copy_.data(), view.block_.data.get(), view.block_.size);
      view.block_ = {};
    } else {
      read(view.copy_);
    }
  }

  codec::Block block_;
  std::conditional_t<std::is_same_v<T, char>, std::string, std::vector<T>> copy_;
};

// As what an argument is kept at its receiver while the function runs.
template <class T>
struct Received {
  using type = std::remove_cvref_t<T>;
  static type& get(type& kept) { return kept; }
};
template <>
struct Received<std::string_view> {
  using type = ReceivedView<char>;
  static std::string_view get(const type& kept) { return kept.view(); }
};
template <class T>
struct Received<std::span<const T>> {
  using type = ReceivedView<T>;
  static std::span<const T> get(const type& kept) { return kept.view(); }
};
template <class T>
using ReceivedAs = typename Received<std::remove_cvref_t<T>>::type;

// Writes an argument of a function that takes an A.
template <class A, class U>
void write_argument(codec::Writer& writer, codec::Write& write, U&& argument) {
  using Given = std::remove_reference_t<U>;
  using Plain = std::remove_cvref_t<A>;
  if constexpr (!std::is_reference_v<U> && std::is_same_v<Given, SentAs<A>> &&
                !std::is_trivially_copyable_v<Given>) {
    const auto owned = std::make_shared<const Given>(std::forward<U>(argument));  // the caller gives it away
    writer.set_owner(owned);
    write(*owned);
    writer.set_owner(nullptr);
  } else if constexpr (std::is_same_v<std::remove_const_t<Given>, SentAs<A>>) {
    write(static_cast<const Given&>(argument));
  } else if constexpr (!std::is_same_v<Plain, SentAs<A>> && std::is_convertible_v<const Given&, Plain>) {
    const Plain view(argument);
    using Element = std::remove_const_t<typename Plain::value_type>;
    if constexpr (codec::Plain<Element> && !std::is_same_v<Element, bool>) {
      writer.length(view.size());
      writer.plain(view.data(), view.size() * sizeof(Element));
    } else {
      write(static_cast<const SentAs<A>&>(SentAs<A>(view.begin(), view.end())));
    }
  } else {
    static_assert(std::is_convertible_v<const Given&, SentAs<A>>, "the function takes another argument");
    const auto converted = std::make_shared<const SentAs<A>>(static_cast<SentAs<A>>(argument));
    writer.set_owner(converted);
    write(*converted);
    writer.set_owner(nullptr);
  }
}

// Of a value that lives on.
template <class R>
codec::Bytes result_bytes(const R& value, const codec::ReceiverDevices& caller) {
  codec::Writer writer(codec::Writer::LongData::copied, &caller);
  codec::Write write(writer);
  write(value);
  return writer.take_bytes();
}
// Of one that is the bytes' own from now on.
template <class R>
codec::Bytes bytes_with(R value, const codec::ReceiverDevices& caller) {
  if constexpr (std::is_trivially_copyable_v<R>) {
    return result_bytes(value, caller);
  } else {
    const auto owned = std::make_shared<const R>(std::move(value));
    codec::Writer writer(codec::Writer::LongData::referred, &caller);
    writer.set_owner(owned);
    codec::Write write(writer);
    write(*owned);
    return writer.take_bytes();
  }
}

}  // namespace rpc_detail
}  // namespace rpc
}  // namespace v1
}  // namespace dlaunch
