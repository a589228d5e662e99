// Objects as bytes, and as what collectives carry.

#include "dlaunch/object.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "dlaunch/threads.h"
#include "tests/runtime/group/thread_groups.h"

namespace app {

// A type of a program's own, with one inside the other.
struct Metric {
  std::string name;
  double value = 0;
  bool operator==(const Metric&) const = default;
};
template <class Archive>
void serialize(Archive& archive, Metric& metric) {
  archive(metric.name, metric.value);
}

struct Report {
  int step = 0;
  std::vector<Metric> metrics;
  std::optional<std::string> note;
  bool operator==(const Report&) const = default;
};
template <class Archive>
void serialize(Archive& archive, Report& report) {
  archive(report.step, report.metrics, report.note);
}

// A type that contains itself, and one that has nothing.
struct Tree {
  int value = 0;
  std::vector<Tree> children;
  bool operator==(const Tree&) const = default;
};
template <class Archive>
void serialize(Archive& archive, Tree& tree) {
  archive(tree.value, tree.children);
}

struct Nothing {
  auto operator<=>(const Nothing&) const = default;
};
template <class Archive>
void serialize(Archive& /*archive*/, Nothing& /*nothing*/) {}

// As Tree, but of other values.
struct Forest {
  float value = 0;
  std::vector<Forest> children;
};
template <class Archive>
void serialize(Archive& archive, Forest& forest) {
  archive(forest.value, forest.children);
}

// A chain of so many.
Tree chain(int depth) {
  Tree tree;
  for (int i = 1; i < depth; ++i) {
    Tree outer;
    outer.value = i;
    outer.children.push_back(std::move(tree));
    tree = std::move(outer);
  }
  return tree;
}

}  // namespace app

namespace dlaunch::internal {
namespace {

using test::error_contains;
using test::error_of;

enum class Colour : std::uint8_t { red, green };

template <class T>
void expect_round_trip(const T& object) {
  EXPECT_EQ(from_bytes<T>(to_bytes(object)), object);
}

TEST(Codec, TakesEveryKnownTypeThereAndBack) {
  expect_round_trip(true);
  expect_round_trip(-7);
  expect_round_trip(1.5);
  expect_round_trip(Colour::green);
  expect_round_trip(std::string("a\0b", 3));
  expect_round_trip(std::string());
  expect_round_trip(std::vector<int>{1, 2, 3});
  expect_round_trip(std::vector<bool>{true, false, true});
  expect_round_trip(std::vector<std::vector<std::string>>{{"a"}, {}, {"b", ""}});
  expect_round_trip(std::array<float, 3>{1, 2, 3});
  expect_round_trip(std::tuple<int, std::string, bool>(1, "x", true));
  expect_round_trip(std::pair<std::int64_t, char>(1, 'c'));
  expect_round_trip(std::map<std::string, std::vector<int>>{{"a", {1}}, {"b", {}}});
  expect_round_trip(std::unordered_map<int, double>{{1, 0.5}, {2, 0.25}});
  expect_round_trip(std::optional<int>());
  expect_round_trip(std::optional<int>(3));
  expect_round_trip(app::Report{4, {{"loss", 0.5}, {"accuracy", 0.75}}, "fine"});
  expect_round_trip(app::Report{});
}

TEST(Codec, TakesSetsAndVariants) {
  expect_round_trip(std::set<std::string>{"b", "", "a"});
  expect_round_trip(std::set<int>());
  expect_round_trip(std::unordered_set<std::int64_t>{3, 1, 2});
  expect_round_trip(std::set<std::pair<int, std::string>>{{1, "x"}, {1, "y"}});
  expect_round_trip(std::set<std::tuple<>>{{}});
  using Mixed = std::variant<std::monostate, int, std::string, std::vector<double>, app::Report>;
  expect_round_trip(Mixed());
  expect_round_trip(Mixed(7));
  expect_round_trip(Mixed("seven"));
  expect_round_trip(std::vector<Mixed>{7, "seven", std::vector<double>{0.5}, app::Report{1, {}, "a"}, {}});
  expect_round_trip(std::variant<int, int>(std::in_place_index<1>, 4));
  expect_round_trip(std::vector<std::monostate>(1000));
  expect_round_trip(std::map<int, std::variant<bool, std::set<int>>>{{1, true}, {2, std::set<int>{4}}});
  expect_round_trip(std::unordered_map<std::string, std::optional<std::pair<int, bool>>>{
      {"a", std::pair(1, true)}, {"b", std::nullopt}});
}

// The types are part of what is compared.
TEST(Codec, AVariantOfOtherTypesIsRefused) {
  const std::string bytes = to_bytes(std::variant<int, std::string>(7));
  const char* const refusal = "a serialised object is of another type";
  EXPECT_EQ(error_of([&] { from_bytes<std::variant<std::string, int>>(bytes); }), refusal);
  EXPECT_EQ(error_of([&] { from_bytes<std::variant<int, std::string, bool>>(bytes); }), refusal);
  EXPECT_EQ(error_of([&] { from_bytes<std::set<int>>(to_bytes(std::vector<int>{1})); }), refusal);
}

TEST(Codec, WhatASetOrAVariantCannotBeIsRefused) {
  std::string variant = to_bytes(std::variant<int, std::string>(7));
  variant[8] = 2;
  EXPECT_EQ(error_of([&] { from_bytes<std::variant<int, std::string>>(variant); }),
            "a serialised variant has a type that is none of its own");
  std::string set = to_bytes(std::set<int>{1, 2});
  set.replace(set.size() - 4, 4, set.substr(set.size() - 8, 4));
  EXPECT_EQ(error_of([&] { from_bytes<std::set<int>>(set); }), "a serialised set has an element twice");
  std::string nothings = to_bytes(std::set<std::tuple<>>{{}});
  nothings[8] = 2;
  EXPECT_EQ(error_of([&] { from_bytes<std::set<std::tuple<>>>(nothings); }),
            "a serialised set has an element twice");
  std::string long_set = to_bytes(std::unordered_set<int>());
  long_set.replace(8, 8, std::string(8, '\x7f'));
  EXPECT_EQ(error_of([&] { from_bytes<std::unordered_set<int>>(long_set); }),
            "a serialised object has a length that cannot be");
}

TEST(Codec, AnotherTypeIsRefused) {
  const std::string bytes = to_bytes(std::vector<int>{1});
  EXPECT_EQ(error_of([&] { from_bytes<std::vector<float>>(bytes); }),
            "a serialised object is of another type");
  EXPECT_EQ(error_of([&] { from_bytes<std::vector<std::int64_t>>(bytes); }),
            "a serialised object is of another type");
  EXPECT_EQ(error_of([&] { from_bytes<std::string>(bytes); }), "a serialised object is of another type");
}

// Every prefix, and every bit turned over: an error or an object, never anything else.
TEST(Codec, DamagedBytesAreFoundOrHarmless) {
  const app::Report report{4, {{"loss", 0.5}, {"accuracy", 0.75}}, "fine"};
  const std::string bytes = to_bytes(report);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(error_of([&] { from_bytes<app::Report>(bytes.substr(0, length)); }), "no error") << length;
  }
  EXPECT_EQ(error_of([&] { from_bytes<app::Report>(bytes + "x"); }),
            "a serialised object is followed by bytes that belong to nothing");
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    try {
      EXPECT_NE(from_bytes<app::Report>(damaged), report);
    } catch (const DistError&) {  // as it should
    }
  }
}

TEST(Codec, ALengthThatCannotBeAllocatesNothing) {
  std::string bytes = to_bytes(std::vector<std::string>{});
  bytes.replace(8, 8, std::string(8, '\x7f'));
  EXPECT_EQ(error_of([&] { from_bytes<std::vector<std::string>>(bytes); }),
            "a serialised object has a length that cannot be");
}

TEST(Codec, ATypeMayContainItself) {
  expect_round_trip(app::Tree{});
  expect_round_trip(app::Tree{1, {{2, {}}, {3, {{4, {}}, {5, {}}}}}});
  expect_round_trip(std::vector<app::Tree>{{1, {}}, {2, {{3, {}}}}});
  const std::string bytes = to_bytes(app::Tree{});
  EXPECT_EQ(error_of([&] { from_bytes<app::Forest>(bytes); }), "a serialised object is of another type");
}

TEST(Codec, ANestThatIsTooDeepIsRefusedOnBothSides) {
  expect_round_trip(app::chain(500));
  const char* const refusal = "a serialised object is nested too deeply";
  EXPECT_EQ(error_of([] { to_bytes(app::chain(501)); }), refusal);
  // One child inside the other, without an end.
  std::string hostile = to_bytes(app::Tree{}).substr(0, 8);
  const std::string level = to_bytes(app::Tree{7, {{}}}).substr(8, 12);
  for (int i = 0; i < 1'000'000; ++i) hostile += level;
  EXPECT_EQ(error_of([&] { from_bytes<app::Tree>(hostile); }), refusal);
}

TEST(Codec, PartsThatTakeNoBytesAreCounted) {
  expect_round_trip(std::vector<app::Nothing>(5));
  expect_round_trip(std::vector<std::tuple<>>(1000));
  expect_round_trip(std::vector<std::array<int, 0>>(3));
  expect_round_trip(std::map<app::Nothing, std::tuple<>>{{{}, {}}});
  expect_round_trip(std::map<int, app::Nothing>{{1, {}}, {2, {}}});
  expect_round_trip(std::vector<std::vector<app::Nothing>>{{{}, {}}, {}, {{}}});
  const std::size_t most = std::size_t{1} << 20;
  expect_round_trip(std::vector<app::Nothing>(most));
  EXPECT_EQ(error_of([&] { to_bytes(std::vector<app::Nothing>(most + 1)); }),
            "an object has too many parts that take no bytes to be serialised");
  // Together, too: each of two would do.
  using Two = std::vector<std::vector<app::Nothing>>;
  std::string hostile = to_bytes(Two{{}, {}});
  const std::uint64_t claimed = most / 2 + 1;
  for (const std::size_t at : {16U, 24U}) {
    hostile.replace(at, sizeof claimed, std::string(reinterpret_cast<const char*>(&claimed), sizeof claimed));
  }
  EXPECT_EQ(error_of([&] { from_bytes<Two>(hostile); }), "a serialised object has a length that cannot be");
}

class Objects : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Objects, testing::Values(1, 2, 3, 4, 5, 8));

// Sizes differ from rank to rank; one of them has nothing in it.
app::Report report_of(int rank) {
  app::Report report{rank, {}, {}};
  for (int i = 0; i < rank * 300; ++i)
    report.metrics.push_back({std::string(static_cast<std::size_t>(rank), 'm'), 0.5 * i});
  return report;
}

TEST_P(Objects, GoThroughEveryCollective) {
  const int size = GetParam();
  run_ranks_as_threads(size, [size](int rank) {
    init_process_group();
    const std::vector<app::Report> all = all_gather_object(report_of(rank));
    ASSERT_EQ(static_cast<int>(all.size()), size);
    for (int peer = 0; peer < size; ++peer) EXPECT_EQ(all[static_cast<std::size_t>(peer)], report_of(peer));

    const std::vector<app::Report> gathered = gather_object(report_of(rank), size - 1);
    EXPECT_EQ(gathered, rank == size - 1 ? all : std::vector<app::Report>());

    std::vector<app::Report> list;
    if (rank == size / 2) list = all;
    broadcast_object_list(list, size / 2);
    EXPECT_EQ(list, all);

    const app::Report own = scatter_object_list(rank == 0 ? all : std::vector<app::Report>(), 0);
    EXPECT_EQ(own, report_of(rank));

    // Around; the last rank's object, by whoever sends.
    const int right = (rank + 1) % size;
    const int left = (rank + size - 1) % size;
    std::vector<app::Report> received;
    if (rank % 2 == 0) {
      send_object_list(std::vector{report_of(rank)}, right);
      EXPECT_EQ(recv_object_list(received), left);
    } else {
      EXPECT_EQ(recv_object_list(received, left), left);
      send_object_list(std::vector{report_of(rank)}, right);
    }
    EXPECT_EQ(received, std::vector{report_of(left)});
    destroy_process_group();
  });
}

TEST(ObjectMessages, DoNotMeetTheProgramsMessages) {
  run_ranks_as_threads(2, [](int rank) {
    init_process_group();
    const std::vector<std::string> objects = {"hello"};
    std::vector<std::int64_t> value = {5};
    if (rank == 0) {
      const Work sent = isend(Tensor::of(value), 1);
      send_object_list(objects, 1);
      sent.wait();
    } else {
      std::vector<std::string> received;
      EXPECT_EQ(recv_object_list(received, any_source), 0);  // the other way round
      EXPECT_EQ(received, objects);
      value[0] = 0;
      recv(Tensor::of(value), any_source);
      EXPECT_EQ(value[0], 5);
    }
    destroy_process_group();
  });
}

TEST(ObjectCollectives, AnotherTypeOnOneRankIsNamed) {
  run_ranks_as_threads(2, [](int rank) {
    init_process_group();
    const auto gather = [&] {
      if (rank == 0) {
        all_gather_object(std::string("text"));
      } else {
        all_gather_object(std::vector<int>{1});
      }
    };
    const std::string here = "rank " + std::to_string(rank) + ", ";
    EXPECT_EQ(error_of(gather), here + "all_gather_object of group default, peer " +
                                    std::to_string(1 - rank) + ": a serialised object is of another type");
    std::vector<int> numbers = {1};
    std::vector<std::string> texts = {"text"};
    if (rank == 0) {
      broadcast_object_list(numbers, 0);
      send_object_list(numbers, 1);
    } else {
      EXPECT_EQ(
          error_of([&] { broadcast_object_list(texts, 0); }),
          here + "broadcast_object_list of group default, peer 0: a serialised object is of another type");
      EXPECT_EQ(error_of([&] { recv_object_list(texts); }),
                here + "recv_object_list of group default, peer 0: a serialised object is of another type");
    }
    barrier();  // the group is as it was
    const std::vector<int> wrong(rank == 0 ? 1 : 0);
    if (rank == 0) {
      EXPECT_TRUE(
          error_contains([&] { scatter_object_list(wrong, 0); }, "1 objects to scatter among 2 ranks"));
    }
    barrier();
    destroy_process_group();
  });
}

// A rank that announces more bytes than there is memory, or a negative number.
TEST(ObjectCollectives, ALengthThatCannotBeTakenIsAnErrorOfTheGroup) {
  const std::int64_t all_memory = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const std::int64_t length : {all_memory + 1, std::int64_t{-1}}) {
    const std::vector<std::pair<std::string, std::function<void(int)>>> cases = {
        {"recv_object_list",
         [&](int rank) {
           std::vector<std::int64_t> said = {length};
           rank == 1 ? GroupImpl::of(default_group())
                           .isend(Tensor::of(said), 0, {}, GroupImpl::Tags::objects)
                           .wait()
                     : void(recv_bytes(1));
         }},
        {"all_gather_object",
         [&](int rank) {
           std::vector<std::int64_t> said = {length};
           std::vector<std::int64_t> all(2);
           rank == 1 ? all_gather_into_tensor(Tensor::of(all), Tensor::of(said)).wait()
                     : void(all_gather_bytes("own"));
         }},
        {"gather_object",
         [&](int rank) {
           std::vector<std::int64_t> said = {length};
           std::vector<std::int64_t> all(2);
           rank == 1 ? all_gather_into_tensor(Tensor::of(all), Tensor::of(said)).wait()
                     : void(gather_bytes("own", 0));
         }},
        {"broadcast_object_list",
         [&](int rank) {
           std::vector<std::int64_t> said = {length};
           rank == 1 ? broadcast(Tensor::of(said), 1).wait() : void(broadcast_bytes("", 1));
         }},
        {"scatter_object_list",
         [&](int rank) {
           std::vector<std::int64_t> said = {0, 0, length};
           rank == 1 ? broadcast(Tensor::of(said), 1).wait() : void(scatter_bytes({}, 1));
         }},
    };
    for (const auto& [operation, call] : cases) {
      run_ranks_as_threads(2, [&, &name = operation, &run = call](int rank) {
        init_process_group();
        const std::string error = error_of([&] { run(rank); });
        EXPECT_EQ(error, rank == 1 ? "no error"
                                   : "rank 0, " + name +
                                         " of group default, peer 1: there is no memory for an "
                                         "object of " +
                                         std::to_string(static_cast<std::uint64_t>(length)) + " bytes");
        EXPECT_NE(error_of([] { barrier(); }), "no error");  // no rank is left waiting
        destroy_process_group();
      });
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
