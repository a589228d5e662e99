#include "agent/model/json_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlaunch::agent {

struct ExamplePoint {
  int x = -1;
  int y = -1;
  bool operator==(const ExamplePoint&) const = default;
};
void fields(auto& io, Of<ExamplePoint> auto& p) {
  io.required("x", p.x);
  io("y", p.y);
}

struct ExampleShape {
  std::string name;
  double size = 0;
  std::vector<ExamplePoint> corners;
  ExamplePoint centre;
  bool operator==(const ExampleShape&) const = default;
};
void fields(auto& io, Of<ExampleShape> auto& s) {
  io("name", s.name);
  io("size", s.size);
  io("corners", s.corners);
  io("centre", s.centre);
}

namespace {

// Whether all of it fits; what does is in `shape`.
bool read(const char* text, ExampleShape& shape) { return JsonReader::read(Json::parse(text), shape); }

TEST(JsonFields, AreWrittenInTheOrderOfTheListAndReadBack) {
  const ExampleShape shape{"s", 1.5, {{1, 2}, {3, 4}}, {5, 6}};
  const std::string text = to_text(JsonWriter::json_of(shape));
  EXPECT_EQ(text,
            R"({"name":"s","size":1.5,"corners":[{"x":1,"y":2},{"x":3,"y":4}],"centre":{"x":5,"y":6}})");
  ExampleShape back;
  EXPECT_TRUE(read(text.c_str(), back));
  EXPECT_EQ(back, shape);
}

struct ExampleSwitch {
  bool on = false;
};
void fields(auto& io, Of<ExampleSwitch> auto& s) { io.required("on", s.on); }

TEST(JsonFields, ABoolIsNoNumber) {
  ExampleSwitch one;
  EXPECT_TRUE(JsonReader::read(Json::parse(to_text(JsonWriter::json_of(ExampleSwitch{true}))), one));
  EXPECT_TRUE(one.on);
  EXPECT_FALSE(JsonReader::read(Json::parse(R"({"on":0})"), one));
  EXPECT_TRUE(one.on);
}

TEST(JsonFields, MissingOnesStayAsTheyAre) {
  ExampleShape shape{"before", 2, {}, {7, 8}};
  EXPECT_TRUE(read(R"({"centre": {"x": 1}, "unknown": 3})", shape));
  EXPECT_EQ(shape.name, "before");
  EXPECT_EQ(shape.centre, (ExamplePoint{1, 8}));
}

TEST(JsonFields, ARequiredOneThatIsMissingIsSeenAtTheTop) {
  ExampleShape shape;
  EXPECT_FALSE(read(R"({"name": "s", "centre": {"y": 1}})", shape));
  EXPECT_EQ(shape.name, "s") << "the others are taken";
  EXPECT_EQ(shape.centre.y, 1);
}

TEST(JsonFields, OnesOfAnotherTypeStayAsTheyAre) {
  ExampleShape shape{"before", 2, {}, {7, 8}};
  EXPECT_FALSE(read(R"({"name": 3, "size": "4", "centre": [1], "corners": {"x": 1}})", shape));
  EXPECT_EQ(shape, (ExampleShape{"before", 2, {}, {7, 8}}));
  EXPECT_FALSE(read("[]", shape));
  EXPECT_FALSE(read("null", shape));
}

TEST(JsonFields, ItemsOfAnotherTypeAreLeftOut) {
  ExampleShape shape;
  EXPECT_FALSE(read(R"({"corners": [{"x": 1}, 3, {"y": 2}, null]})", shape));
  EXPECT_EQ(shape.corners, (std::vector<ExamplePoint>{{1, -1}, {-1, 2}}));
}

TEST(JsonFields, AnyBytesAreWrittenAsText) {
  const ExampleShape shape{"a\xff\n", 0, {}, {}};
  const std::string text = to_text(JsonWriter::json_of(shape));
  EXPECT_EQ(text.find('\xff'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  ExampleShape back;
  EXPECT_TRUE(read(text.c_str(), back));
}

}  // namespace
}  // namespace dlaunch::agent
