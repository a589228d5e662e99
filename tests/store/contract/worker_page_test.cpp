// What both sides compute from a page. How it is written and read: tests/runtime/record/recorder_test.cpp and
// tests/agent/model/worker_record_test.cpp.
#include "store/contract/worker_page.h"

#include <gtest/gtest.h>

#include <set>

namespace dlaunch::store::page {
namespace {

TEST(WorkerPage, EachOperationHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(last_operation); ++i)
    names.insert(name_of(static_cast<Operation>(i)));
  EXPECT_EQ(names.size(), operation_names.size());
  EXPECT_EQ(name_of(Operation::barrier), "barrier");
  EXPECT_EQ(name_of(Operation::send), "send");
  EXPECT_EQ(name_of(Operation::flatten), "DeviceMesh::flatten");
  EXPECT_EQ(name_of(last_operation), "a remote call");
}

TEST(WorkerPage, AnOperationIsOfOneKind) {
  for (int i = 0; i <= static_cast<int>(last_operation); ++i) {
    const auto operation = static_cast<Operation>(i);
    const int kinds = (is_collective(operation) ? 1 : 0) + (is_point_to_point(operation) ? 1 : 0) +
                      (is_meeting(operation) ? 1 : 0) + (operation == Operation::monitored_barrier ? 1 : 0) +
                      (operation == Operation::store_wait ? 1 : 0) +
                      (operation == Operation::remote_call ? 1 : 0);
    EXPECT_EQ(kinds, 1) << name_of(operation);
  }
  EXPECT_TRUE(is_collective(Operation::all_reduce_coalesced));
  EXPECT_TRUE(is_meeting(Operation::new_group));
}

TEST(WorkerPage, OpenOperationsAreThoseThatHaveNotEnded) {
  Header header{};
  EXPECT_EQ(open_of(header), 0U);
  header.next = 5;          // of which
  header.others_begun = 2;  // are no collectives
  header.collectives_ended = 1;
  EXPECT_EQ(open_of(header), 2U);
  EXPECT_EQ(moves_of(header), 6U);
  header.waiting = 1;
  EXPECT_EQ(open_of(header), 3U);
}

// A reader may see one count before and another after an operation.
TEST(WorkerPage, CountsThatChangeMeanwhileAreNeverNegative) {
  Header header{};
  header.next = 2;
  header.others_begun = 2;
  header.collectives_ended = 1;
  EXPECT_EQ(open_of(header), 0U);
}

}  // namespace
}  // namespace dlaunch::store::page
