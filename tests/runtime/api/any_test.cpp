// Values whose types are known at run time only.

#include "dlaunch/any.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dlaunch/object.h"
#include "dlaunch/threads.h"
#include "tests/runtime/group/thread_groups.h"

namespace app {

struct Step {
  int number = 0;
  std::vector<float> losses;
  bool operator==(const Step&) const = default;
};
template <class Archive>
void serialize(Archive& archive, Step& step) {
  archive(step.number, step.losses);
}

}  // namespace app

namespace dlaunch::internal {
namespace {

using test::error_of;

TEST(Any, HoldsWhatAPythonListHolds) {
  const std::vector<Any> objects = {nullptr,
                                    true,
                                    12,
                                    -1.5,
                                    "foo",
                                    std::vector<int>{1, 2},
                                    std::map<int, int>{{1, 2}},
                                    app::Step{3, {0.5F}}};
  using Kind = Any::Kind;
  const std::vector<Kind> kinds = {Kind::none, Kind::boolean, Kind::integer, Kind::real,
                                   Kind::text, Kind::list,    Kind::dict,    Kind::object};
  for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(objects[i].kind(), kinds[i]) << i;
  EXPECT_TRUE(Any().is_none());
  EXPECT_TRUE(objects[1].as<bool>());
  EXPECT_EQ(objects[2].as<std::int8_t>(), 12);
  EXPECT_EQ(objects[2].as<float>(), 12.0F);
  EXPECT_EQ(objects[3].as<double>(), -1.5);
  EXPECT_EQ(objects[4].as<std::string>(), "foo");
  EXPECT_EQ(objects[5].as<std::vector<std::int64_t>>(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ((objects[6].as<std::unordered_map<int, int>>()), (std::unordered_map<int, int>{{1, 2}}));
  EXPECT_EQ(objects[7].as<app::Step>(), (app::Step{3, {0.5F}}));
  EXPECT_EQ(Any(std::vector<bool>{true, false}).as<std::vector<bool>>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(Any(std::string("a\0b", 3)).as<std::string>(), std::string("a\0b", 3));
}

TEST(Any, ListsAndDictsCanBeChanged) {
  Any any = Any::List{1, "two"};
  any.list().push_back(Any::Dict{{"three", 3}});
  any.list()[2].dict()["three"] = nullptr;
  any.list()[2].dict()[4] = Any::List();
  EXPECT_EQ(to_string(any), "[1, 'two', {4: [], 'three': None}]");
  const Any copy = any;
  any.list().clear();
  EXPECT_EQ(copy.list().size(), 3U);  // nothing is shared
}

TEST(Any, WrongTypeIsNamed) {
  EXPECT_EQ(error_of([] { (void)Any(12).as<std::string>(); }),
            "an Any that holds integer 12 was asked for a text");
  EXPECT_EQ(error_of([] { (void)Any("12").as<int>(); }), "an Any that holds text was asked for an integer");
  EXPECT_EQ(error_of([] { (void)Any(1.0).as<int>(); }),
            "an Any that holds real 1.0 was asked for an integer");
  EXPECT_EQ(error_of([] { (void)Any(true).as<double>(); }),
            "an Any that holds boolean True was asked for a number");
  EXPECT_EQ(error_of([] { (void)Any(300).as<std::uint8_t>(); }),
            "an Any that holds integer 300 was asked for an integer of 8 bits");
  EXPECT_EQ(error_of([] { (void)Any(-1).as<std::uint64_t>(); }),
            "an Any that holds integer -1 was asked for an integer of 64 bits");
  EXPECT_EQ(error_of([] { (void)Any().list(); }), "an Any that holds none was asked for a list");
  EXPECT_EQ(error_of([] { (void)Any().as<std::map<int, int>>(); }),
            "an Any that holds none was asked for a dict");
  EXPECT_EQ(error_of([] { (void)Any("x").as<app::Step>(); }),
            "an Any that holds text was asked for an object");
  EXPECT_EQ(error_of([] { (void)Any(app::Step()).as<std::tuple<int>>(); }),
            "a serialised object is of another type");
  EXPECT_EQ(error_of([] { (void)Any(std::numeric_limits<std::uint64_t>::max()); }),
            "an Any holds whole numbers up to 2^63 - 1, not 18446744073709551615");
}

TEST(Any, PrintsAsPythonDoes) {
  const std::vector<std::pair<Any, std::string>> cases = {
      {nullptr, "None"},
      {false, "False"},
      {std::numeric_limits<std::int64_t>::min(), "-9223372036854775808"},
      {1.0, "1.0"},
      {0.1, "0.1"},
      {-2.5e-5, "-2.5e-05"},
      {0.0001, "0.0001"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {std::nan(""), "nan"},
      {"it's", "\"it's\""},
      {"a\n\\\x01'\"", "'a\\n\\\\\\x01\\'\"'"},
      {Any::List(), "[]"},
      {Any::Dict(), "{}"},
      {std::vector<Any>{"foo", 12, std::map<int, int>{{1, 2}}}, "['foo', 12, {1: 2}]"},
      {std::tuple<int>(1), "<object of 12 bytes>"},
  };
  for (const auto& [any, text] : cases) EXPECT_EQ(to_string(any), text);
}

TEST(Any, ComparesByValue) {
  EXPECT_EQ(Any(1), Any(1.0));
  EXPECT_NE(Any(1), Any(true));
  EXPECT_NE(Any("1"), Any(1));
  EXPECT_LT(Any(1), Any(1.5));
  EXPECT_LT(Any(-1.5), Any(-1));
  EXPECT_EQ(Any(std::nan("")), Any(std::nan("")));
  EXPECT_LT(Any(std::numeric_limits<double>::infinity()), Any(std::nan("")));
  EXPECT_LT(Any(5), Any(std::nan("")));
  // The next double is another number.
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_LT(Any(most), Any(static_cast<double>(most)));
  EXPECT_EQ(Any(std::numeric_limits<std::int64_t>::min()), Any(-0x1p63));
  EXPECT_LT(Any(-0x1p64), Any(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(Any(Any::List{1, "a"}), Any(Any::List{1.0, "a"}));
  EXPECT_LT(Any(Any::List{1, "a"}), Any(Any::List{1, "b"}));
  EXPECT_EQ(Any(app::Step{1, {}}), Any(app::Step{1, {}}));
  EXPECT_NE(Any(app::Step{1, {}}), Any(app::Step{2, {}}));
}

Any nest(int depth) {
  Any any;
  for (int i = 1; i < depth; ++i) any = Any::List{std::move(any)};
  return any;
}

TEST(Any, TravelsAsBytes) {
  const std::vector<Any> objects = {nullptr,
                                    true,
                                    -12,
                                    0.5,
                                    "foo",
                                    Any::List{1, Any::List{}},
                                    Any::Dict{{nullptr, "x"}, {2, 0.5}},
                                    app::Step{3, {0.5F}}};
  const std::string bytes = to_bytes(objects);
  EXPECT_EQ(from_bytes<std::vector<Any>>(bytes), objects);
  EXPECT_EQ(from_bytes<std::vector<Any>>(bytes).back().as<app::Step>(), (app::Step{3, {0.5F}}));
  EXPECT_EQ(error_of([&] { from_bytes<Any>(bytes); }), "a serialised object is of another type");
  // Every prefix, and every bit turned over: an error or an object, never anything else.
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(error_of([&] { from_bytes<std::vector<Any>>(bytes.substr(0, length)); }), "no error") << length;
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    try {
      EXPECT_NE(from_bytes<std::vector<Any>>(damaged), objects) << bit;
    } catch (const DistError&) {  // as it should
    }
  }
}

TEST(Any, ANestThatIsTooDeepIsRefusedOnBothSides) {
  EXPECT_EQ(from_bytes<Any>(to_bytes(nest(500))), nest(500));
  const char* const refusal = "a serialised object is nested too deeply";
  EXPECT_EQ(error_of([] { to_bytes(nest(501)); }), refusal);
  // One list inside the other, without an end.
  std::string hostile = to_bytes(nest(1)).substr(0, 8);
  const std::string level = to_bytes(nest(2)).substr(8, 12);
  for (int i = 0; i < 1'000'000; ++i) hostile += level;
  EXPECT_EQ(error_of([&] { from_bytes<Any>(hostile); }), refusal);
}

// The lists of the documentation of torch.distributed.
TEST(Any, GoesThroughEveryObjectCollective) {
  run_ranks_as_threads(3, [](int rank) {
    init_process_group();
    const std::vector<Any> all = {"foo", 12, std::map<int, int>{{1, 2}}};
    const Any& own = all[static_cast<std::size_t>(rank)];
    EXPECT_EQ(to_string(all_gather_object(own)), "['foo', 12, {1: 2}]");
    EXPECT_EQ(gather_object(own, 1), rank == 1 ? all : std::vector<Any>());
    std::vector<Any> objects(3);
    if (rank == 2) objects = all;
    broadcast_object_list(objects, 2);
    EXPECT_EQ(objects, all);
    EXPECT_EQ(scatter_object_list(rank == 0 ? all : std::vector<Any>(), 0), own);
    if (rank == 0) send_object_list(all, 1);
    if (rank == 1) {
      objects.clear();
      EXPECT_EQ(recv_object_list(objects), 0);
      EXPECT_EQ(objects, all);
    }
    destroy_process_group();
  });
}

}  // namespace
}  // namespace dlaunch::internal
