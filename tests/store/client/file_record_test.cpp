#include "store/client/file_record.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

TEST(FileRecord, ReadsWhatItWrites) {
  std::string bytes;
  encode_file_record({"/key", "value"}, bytes);
  encode_file_record({"-/key", ""}, bytes);
  const auto first = decode_file_record(as_byte_span(bytes), {});
  ASSERT_EQ(first.status, DecodedFileRecord::Status::whole);
  EXPECT_EQ(first.record.key, "/key");
  EXPECT_EQ(first.record.value, "value");
  const auto second = decode_file_record(as_byte_span(bytes).subspan(first.size), {});
  ASSERT_EQ(second.status, DecodedFileRecord::Status::whole);
  EXPECT_EQ(second.record.key, "-/key");
  EXPECT_EQ(first.size + second.size, bytes.size());
}

TEST(FileRecord, AsksForMoreAtEveryBytesEnd) {
  std::string bytes;
  encode_file_record({"/key", "value"}, bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode_file_record(as_byte_span(bytes).first(size), {});
    EXPECT_EQ(decoded.status, DecodedFileRecord::Status::more) << size;
    EXPECT_GT(decoded.size, size);
    EXPECT_LE(decoded.size, bytes.size());
  }
}

TEST(FileRecord, LengthsAreBelievedUpToTheLimits) {
  StoreLimits limits;
  limits.key_bytes = 4;
  limits.value_bytes = 5;
  const auto why = [&](const FileRecord& record) {
    std::string bytes;
    encode_file_record(record, bytes);
    const auto decoded = decode_file_record(as_byte_span(bytes), limits);
    EXPECT_EQ(decoded.status == DecodedFileRecord::Status::whole, decoded.why.empty());
    return std::string(decoded.why);
  };
  EXPECT_EQ(why({"/key", "value"}), "");
  EXPECT_EQ(why({"/keys", ""}), "its key is longer than the limit");
  EXPECT_EQ(why({"/key", "values"}), "its value is longer than the limit");
  EXPECT_EQ(why({"", "value"}), "its key is empty");
  EXPECT_EQ(decode_file_record(as_byte_span("\xff\xff\xff\xff"), limits).status,
            DecodedFileRecord::Status::bad);
}

}  // namespace
}  // namespace dlaunch::store
