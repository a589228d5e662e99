// The bytes of calls and failures, as they come from outside.

#include "runtime/rpc_protocol/call_message.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

TEST(CallMessage, ARequestIsReadAsItWasWritten) {
  const std::string bytes = to_bytes(CallHead{"add", 42, 7}) + "arguments";
  const auto request = parse_request(bytes);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->head.function, "add");
  EXPECT_EQ(request->head.signature, 42U);
  EXPECT_EQ(request->head.context, 7U);
  EXPECT_EQ(request->arguments, "arguments");
}

TEST(CallMessage, NoRequestIsRejected) {
  const std::string bytes = to_bytes(CallHead{"add", 42});
  EXPECT_FALSE(parse_request(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(parse_request(""));
  EXPECT_FALSE(parse_request(to_bytes(CallHead{std::string(longest_function_name + 1, 'f'), 42})));
}

TEST(CallMessage, AFailureIsReadAsItWasWritten) {
  const CallFailure failure{CallFailure::Kind::bad_arguments, "std::logic_error", "no"};
  EXPECT_EQ(parse_failure(to_bytes(failure)), failure);
}

TEST(CallMessage, LongTextsAreCut) {
  const auto failure =
      parse_failure(to_bytes(CallFailure{.type = "E", .text = std::string(2 * longest_failure_text, 't')}));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->text.size(), longest_failure_text);
}

TEST(CallMessage, NoFailureIsRejected) {
  const std::string bytes = to_bytes(CallFailure{.type = "E", .text = "no"});
  EXPECT_FALSE(parse_failure(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(parse_failure(bytes + "x"));
  EXPECT_FALSE(parse_failure('\0' + bytes.substr(1)));
  EXPECT_FALSE(parse_failure('\6' + bytes.substr(1)));
}

TEST(CallMessage, ReferencesAreBehindAllElse) {
  const std::vector<PassedReference> references = {{{1, 2, 3}, 4}, {{5, 6, 7}, 8}};
  std::string bytes = "rest";
  append_references(bytes, references);
  const auto split = split_references(bytes);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->rest, "rest");
  EXPECT_EQ(split->references, references);
  EXPECT_FALSE(split_references(bytes.substr(10)));
  EXPECT_FALSE(split_references("abc"));
  bytes.clear();
  append_references(bytes, {});
  EXPECT_EQ(split_references(bytes)->rest, "");
}

TEST(CallMessage, AHelloNamesTheWorker) {
  const Hello hello{70000, "ps", "b", 3};
  const std::string bytes = to_bytes(hello);
  EXPECT_EQ(parse_hello(bytes), hello);
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(parse_hello(bytes.substr(0, size)));
  EXPECT_FALSE(parse_hello(bytes + "x"));
  EXPECT_FALSE(parse_hello(to_bytes(Hello{1, std::string(longest_worker_name + 1, 'x'), "b", 1})));
}

}  // namespace
}  // namespace dlaunch::internal
