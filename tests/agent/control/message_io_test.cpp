// Single fields as bytes. Whole messages: messages_test.cpp and messages_wire_test.cpp.
#include "agent/control/message_io.h"

#include <gtest/gtest.h>

#include <limits>

namespace dlaunch::agent {
namespace {

template <class... T>
std::string written(const T&... values) {
  std::string bytes;
  FieldWriter out(bytes);
  out(values...);
  return bytes;
}

// Whether these bytes, and all of them, are a value of this type.
template <class T>
bool is_read(const std::string& bytes) {
  FieldReader in(as_byte_span(bytes));
  T value{};
  in(value);
  return in.done();
}

TEST(MessageIo, ValuesAreReadAsTheyAreWritten) {
  const std::string bytes = written(-7, std::uint64_t{1} << 63, std::uint16_t{65'535}, true, Duration(-3),
                                    std::string("a\0b", 3), Address{"h", 9});
  int number = 0;
  std::uint64_t large = 0;
  std::uint16_t port = 0;
  bool flag = false;
  Duration time{};
  std::string text;
  Address address;
  FieldReader in(as_byte_span(bytes));
  in(number, large, port, flag, time, text, address);
  EXPECT_TRUE(in.done());
  EXPECT_EQ(number, -7);
  EXPECT_EQ(large, std::uint64_t{1} << 63);
  EXPECT_EQ(port, 65'535);
  EXPECT_TRUE(flag);
  EXPECT_EQ(time, Duration(-3));
  EXPECT_EQ(text, std::string("a\0b", 3));
  EXPECT_EQ(address, (Address{"h", 9}));
}

TEST(MessageIo, ANumberThatDoesNotFitIsRejected) {
  EXPECT_TRUE(is_read<int>(written(std::int64_t{std::numeric_limits<int>::min()})));
  EXPECT_FALSE(is_read<int>(written(std::int64_t{std::numeric_limits<int>::max()} + 1)));
  EXPECT_TRUE(is_read<bool>("\1"));
  EXPECT_FALSE(is_read<bool>("\2"));
}

TEST(MessageIo, BytesThatAreMissingOrLeftAreRejected) {
  EXPECT_FALSE(is_read<std::uint32_t>("abc"));
  EXPECT_TRUE(is_read<std::uint32_t>("abcd"));
  EXPECT_FALSE(is_read<std::uint32_t>("abcde"));
}

TEST(MessageIo, AChoiceOutsideItsEnumerationBecomesTheLast) {
  ExitStatus::How how{};
  const std::string bytes = "\x09";
  FieldReader in(as_byte_span(bytes));
  in.choice(how, ExitStatus::How::signaled);
  EXPECT_EQ(how, ExitStatus::How::signaled);
  EXPECT_FALSE(in.done());
}

TEST(MessageIo, ALongTextIsCutWhenItIsWrittenAndRejectedWhenItIsRead) {
  const std::string longer(max_text + 1, 'x');
  const std::string bytes = written(longer);
  EXPECT_EQ(bytes.size(), 8 + max_text);
  EXPECT_TRUE(is_read<std::string>(bytes));
  std::string foreign;
  ByteWriter(foreign).text(longer);
  EXPECT_FALSE(is_read<std::string>(foreign));
}

TEST(MessageIo, AListHasAtMostItsLimit) {
  const std::vector<std::uint16_t> three{1, 2, 3};
  std::string bytes;
  FieldWriter(bytes).list(three, 0);
  const auto read = [&](std::uint32_t limit, const std::string& from) {
    std::vector<std::uint16_t> items;
    FieldReader in(as_byte_span(from));
    in.list(items, limit);
    return in.done() ? items.size() : std::size_t{99};
  };
  EXPECT_EQ(read(3, bytes), 3U);
  EXPECT_EQ(read(2, bytes), 99U);
  EXPECT_EQ(read(4, bytes.substr(0, 9)), 99U) << "the last item is cut";
  EXPECT_EQ(read(UINT32_MAX, "\xff\xff\xff\xff"), 99U) << "a count alone makes no room";
}

}  // namespace
}  // namespace dlaunch::agent
