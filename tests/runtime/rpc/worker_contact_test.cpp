// What workers publish of themselves.

#include "runtime/rpc/worker_contact.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

const WorkerContact ps{
    .name = "ps",
    .id = 8'388'608,
    .host = "b",
    .contact = {std::string(process_id_size, 'i'), "10.0.0.1", 4711, std::string(key_size, 'k'), 0, 0},
    .rank = 2,
    .pid = 1234,
    .devices = {2, {1, 0}, {{"a", {{0, 1}, {1, 0}}}, {"b", {}}}},
    .processors = {5, ~std::uint64_t{0}}};

TEST(WorkerContact, IsReadAsItWasWritten) {
  EXPECT_EQ(parse_worker_contact(to_text(ps)), ps);
  EXPECT_EQ(describe(ps), "worker ps (rank 2) on host b");
  EXPECT_EQ(describe_process(ps), "worker ps (rank 2) on host b (pid 1234)");
}

TEST(WorkerContact, OtherTextIsRejected) {
  const std::string text = to_text(ps);
  EXPECT_FALSE(parse_worker_contact(""));
  EXPECT_FALSE(parse_worker_contact(text.substr(1)));
  EXPECT_FALSE(parse_worker_contact(text + "x"));
  WorkerContact wrong = ps;
  wrong.name = "p s";
  EXPECT_FALSE(parse_worker_contact(to_text(wrong)));
}

TEST(WorkerContact, NamesAreChecked) {
  EXPECT_EQ(why_no_worker_name("Worker_1-a:b.c"), "");
  EXPECT_EQ(why_no_worker_name(""), "a worker needs a name");
  EXPECT_EQ(why_no_worker_name(std::string(128, 'a')), "");
  EXPECT_EQ(why_no_worker_name(std::string(129, 'a')), "a worker's name has at most 128 characters");
  EXPECT_EQ(why_no_worker_name("a/b"),
            "the worker's name 'a/b' has other characters than letters, digits, _ - : and .");
}

}  // namespace
}  // namespace dlaunch::internal
