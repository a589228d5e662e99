#include "launcher/remote/relay_protocol.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dlaunch::launcher {
namespace {

const std::vector<RelayMessage> one_of_each{
    KeepAlive{},
    RunProcess{7, {"ssh", "-o", "", "h 1", "/bin/sh"}},
    ProcessInput{8, std::string("a\0b\n", 4)},
    EndInput{9},
    SignalProcess{10, SIGTERM},
    PauseOutput{11, Stream::err, true},
    PauseOutput{11, Stream::out, false},
    ProcessOutput{4096, Stream::err, "out\n"},
    ProcessOutput{4096, Stream::out, ""},
    ProcessGone{12, 0xff00},
    ProcessGone{12, -1},
    ProcessNotRun{13, "cannot run ssh: No such file or directory"},
};

std::vector<RelayMessage> all_of(RelayReader& reader) {
  std::vector<RelayMessage> out;
  for (;;) {
    auto next = reader.next();
    EXPECT_TRUE(next.ok()) << next.error().message();
    if (!next || !*next) return out;
    out.push_back(**next);
  }
}

std::string error_of(const std::string& bytes) {
  RelayReader reader;
  reader.append(bytes);
  const auto next = reader.next();
  return next.ok() ? "no error" : next.error().message();
}

std::string frame(const std::string& body) {
  std::string out;
  ByteWriter(out).u32(static_cast<std::uint32_t>(body.size()));
  return out + body;
}

TEST(RelayProtocol, MessagesArriveAsTheyAreSent) {
  std::string stream;
  for (const RelayMessage& message : one_of_each) stream += encode(message);
  RelayReader whole;
  whole.append(stream);
  EXPECT_EQ(all_of(whole), one_of_each);

  RelayReader byte_by_byte;
  std::vector<RelayMessage> arrived;
  for (const char c : stream) {
    byte_by_byte.append({&c, 1});
    for (const RelayMessage& message : all_of(byte_by_byte)) arrived.push_back(message);
  }
  EXPECT_EQ(arrived, one_of_each);
}

TEST(RelayProtocol, LongOutputIsCut) {
  const std::string text(3 * most_relayed, 'x');
  RelayReader reader;
  reader.append(encode(ProcessOutput{1, Stream::out, text}) + encode(ProcessInput{2, text}));
  std::string output;
  std::string input;
  for (const RelayMessage& message : all_of(reader)) {
    if (const auto* part = std::get_if<ProcessOutput>(&message)) output += part->bytes;
    if (const auto* part = std::get_if<ProcessInput>(&message)) input += part->bytes;
  }
  EXPECT_EQ(output, text);
  EXPECT_EQ(input, text);
}

TEST(RelayProtocol, WhatIsMalformedIsRejected) {
  EXPECT_EQ(error_of("Last login: today"), "malformed frame of a relay: its length is 1953718604 bytes");
  EXPECT_EQ(error_of(frame("abc")), "malformed frame of a relay: it has no process");
  const std::string process(4, '\0');
  const std::string kinds[] = {std::string("\x63") + process,
                               "\x01" + process,
                               "\x01" + process + "ls",
                               "\x04" + process,
                               "\x04" + process + "\xff",
                               "\x05" + process + "\x02\x01",
                               "\x06" + process,
                               "\x07" + process + "abc"};
  for (const std::string& body : kinds) {
    EXPECT_EQ(error_of(frame(body)),
              "malformed frame of a relay: its kind is " + std::to_string(static_cast<int>(body[0])));
  }
}

TEST(RelayProtocol, TheGreetingStandsBehindTheNoiseOfALoginShell) {
  const std::string greeting = relay_greeting("k12");
  EXPECT_EQ(find_relay_greeting("Welcome!\n" + greeting + "frames", "k12").end, 9 + greeting.size());
  EXPECT_EQ(find_relay_greeting(greeting.substr(0, greeting.size() - 1), "k12").end, 0U);
  EXPECT_EQ(find_relay_greeting(greeting, "k13").end, 0U);
  EXPECT_FALSE(find_relay_greeting(greeting, "k12").is_of_another_version);
  EXPECT_TRUE(find_relay_greeting("\x1ek12 relay 77\n", "k12").is_of_another_version);
}

}  // namespace
}  // namespace dlaunch::launcher
