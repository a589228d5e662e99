// Values by numbers that are drawn in order, as those of calls: in an array, with an index of the numbers. A
// value takes memory of its own only while the table grows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dlaunch::internal {

// Pointers to values are valid until the next add().
template <class Value>
class NumberTable {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  // Null: there is none.
  [[nodiscard]] Value* find(std::uint64_t number) {
    const std::size_t at = place_of(number);
    return at == none ? nullptr : &values_[index_[at].value];
  }
  [[nodiscard]] const Value* find(std::uint64_t number) const {
    const std::size_t at = place_of(number);
    return at == none ? nullptr : &values_[index_[at].value];
  }
  // REQUIRES: the number is not 0, and has no value.
  Value& add(std::uint64_t number, Value value) {
    if (2 * (size_ + 1) > index_.size()) resize(std::max<std::size_t>(smallest, 2 * index_.size()));
    std::uint32_t at = 0;
    if (free_.empty()) {
      at = static_cast<std::uint32_t>(values_.size());
      values_.push_back(std::move(value));
    } else {
      at = free_.back();
      free_.pop_back();
      values_[at] = std::move(value);
    }
    insert({number, at});
    ++size_;
    return values_[at];
  }
  // REQUIRES: the number has a value.
  Value take(std::uint64_t number) {
    const std::size_t at = place_of(number);
    const std::uint32_t place = index_[at].value;
    Value value = std::exchange(values_[place], Value());
    free_.push_back(place);
    close_gap(at);
    --size_;
    if (size_ == 0 && index_.size() > kept) *this = NumberTable();
    return value;
  }
  // In any order.
  void for_each(const auto& visit) const {
    for (const Entry& entry : index_) {
      if (entry.number != 0) visit(entry.number, values_[entry.value]);
    }
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr std::size_t smallest = 16;
  static constexpr std::size_t kept = 8192;  // entries of an empty table

  struct Entry {
    std::uint64_t number = 0;  // 0: there is no entry
    std::uint32_t value = 0;   // in values_
  };

  // Numbers in a row are spread evenly (Knuth, The Art of Computer Programming, volume 3, 6.4: Fibonacci
  // hashing).
  [[nodiscard]] std::size_t home_of(std::uint64_t number) const {
    return static_cast<std::size_t>((number * 0x9E37'79B9'7F4A'7C15U) >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (index_.size() - 1); }

  [[nodiscard]] std::size_t place_of(std::uint64_t number) const {
    if (size_ == 0 || number == 0) return none;
    std::size_t at = home_of(number);
    while (index_[at].number != number) {
      if (index_[at].number == 0) return none;
      at = next(at);
    }
    return at;
  }
  void insert(const Entry& entry) {
    std::size_t at = home_of(entry.number);
    while (index_[at].number != 0) at = next(at);
    index_[at] = entry;
  }
  // Entries behind it that are not at home move up, so that they are found.
  void close_gap(std::size_t gap) {
    for (std::size_t at = next(gap); index_[at].number != 0; at = next(at)) {
      const std::size_t mask = index_.size() - 1;
      const std::size_t from_home = (at - home_of(index_[at].number)) & mask;
      if (from_home < ((at - gap) & mask)) continue;
      index_[gap] = index_[at];
      gap = at;
    }
    index_[gap] = {};
  }
  void resize(std::size_t size) {
    const std::vector<Entry> before = std::exchange(index_, std::vector<Entry>(size));
    shift_ = 64 - std::countr_zero(size);
    for (const Entry& entry : before) {
      if (entry.number != 0) insert(entry);
    }
  }

  std::vector<Entry> index_;  // a power of two of them, half of them free at least
  int shift_ = 0;
  std::vector<Value> values_;
  std::vector<std::uint32_t> free_;  // in values_
  std::size_t size_ = 0;
};

}  // namespace dlaunch::internal
