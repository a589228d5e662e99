#include "examples/train_mnist/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "examples/train_mnist/data_error.h"
#include "tests/examples/scratch_dir.h"

namespace mnist {
namespace {

Checkpoint example() {
  return {.settings = {.seed = 5, .batch_size = 100, .learning_rate = 0.1F, .training_images = 25'000},
          .epochs_done = 3,
          .parameters = {1.5F, -2, 0, 1e-30F, 3},
          .velocity = {0.25F, 0, -1, 7, -0.0F},
          .fencing_token = 1'700'000'000'000'001};
}

class CheckpointFile : public testing::Test {
 protected:
  // The reason read_checkpoint gives for a file of these bytes; it has to name the file, in one line.
  std::string complaint(std::span<const std::byte> bytes) {
    write_file(path_, bytes);
    try {
      read_checkpoint(path_);
    } catch (const DataError& error) {
      const std::string text = error.what();
      const std::string start = "cannot use checkpoint " + path_ + ": ";
      EXPECT_TRUE(text.starts_with(start)) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
      return text.substr(std::min(start.size(), text.size()));
    }
    return "(no complaint)";
  }

  ScratchDir dir_;
  std::string path_ = dir_.file("run.checkpoint");
};

TEST_F(CheckpointFile, comes_back_as_it_was) {
  write_checkpoint(path_, example());
  EXPECT_EQ(read_checkpoint(path_), example());
  EXPECT_EQ(dir_.entries(), 1U);  // no temporary file is left
}

TEST_F(CheckpointFile, replaces_the_one_before) {
  write_checkpoint(path_, example());
  Checkpoint next = example();
  next.epochs_done = 4;
  next.parameters.push_back(1);
  next.velocity.push_back(2);
  write_checkpoint(path_, next);
  EXPECT_EQ(read_checkpoint(path_), next);
  EXPECT_EQ(dir_.entries(), 1U);
}

// Two processes of one world, or the same world again, are not told apart by the token.
TEST_F(CheckpointFile, a_later_world_replaces_it_and_an_earlier_one_does_not) {
  Checkpoint next = example();
  write_checkpoint(path_, next);
  ++next.fencing_token;
  write_checkpoint(path_, next);
  next.epochs_done = 4;
  write_checkpoint(path_, next);
  try {
    write_checkpoint(path_, example());
    ADD_FAILURE() << "a world that is over has replaced the checkpoint";
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot write checkpoint " + path_ +
                  ": it has the fencing token 1700000000000002 of a later world of the job, and this process "
                  "has 1700000000000001; use another file, or remove this one");
  }
  EXPECT_THROW(remove_checkpoint(path_, example().fencing_token), DataError);
  EXPECT_EQ(read_checkpoint(path_), next);
  EXPECT_EQ(dir_.entries(), 1U);
  remove_checkpoint(path_, next.fencing_token);
  EXPECT_EQ(dir_.entries(), 0U);
}

TEST_F(CheckpointFile, what_is_no_checkpoint_is_not_replaced) {
  const std::string text = "something else";
  write_file(path_, std::as_bytes(std::span(text)));
  EXPECT_THROW(write_checkpoint(path_, example()), DataError);
  EXPECT_EQ(std::filesystem::file_size(path_), text.size());
  EXPECT_EQ(dir_.entries(), 1U);
}

// Each compares and replaces in one step: whatever the order, the highest token is the one that stays.
TEST_F(CheckpointFile, of_many_writers_at_one_time_the_highest_token_stays) {
  constexpr std::uint64_t writers = 8;
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < writers; ++writer) {
    threads.emplace_back([this, writer] {
      Checkpoint own = example();
      for (std::uint64_t i = 0; i < 25; ++i) {
        own.fencing_token = 1 + i * writers + (writer * 5 + i) % writers;
        try {
          write_checkpoint(path_, own);
          EXPECT_GE(read_checkpoint(path_)->fencing_token, own.fencing_token);
        } catch (const DataError&) {  // a higher one is there
          EXPECT_GT(read_checkpoint(path_)->fencing_token, own.fencing_token);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_checkpoint(path_)->fencing_token, 25 * writers);
  EXPECT_EQ(dir_.entries(), 1U);
}

TEST_F(CheckpointFile, none_is_no_error) {
  EXPECT_EQ(read_checkpoint(path_), std::nullopt);
  remove_checkpoint(path_, example().fencing_token);
  write_checkpoint(path_, example());
  remove_checkpoint(path_, example().fencing_token);
  EXPECT_EQ(read_checkpoint(path_), std::nullopt);
}

TEST_F(CheckpointFile, truncated_at_any_length_is_refused) {
  const auto bytes = encode(example());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string why = complaint(std::span(bytes).first(length));
    EXPECT_TRUE(why.starts_with("truncated: " + std::to_string(length))) << length << ": " << why;
  }
}

TEST_F(CheckpointFile, any_flipped_bit_is_found) {
  const auto bytes = encode(example());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto bad = bytes;
      bad[at] ^= std::byte{1} << bit;
      EXPECT_NE(complaint(bad), "(no complaint)") << "byte " << at << " bit " << bit;
    }
  }
}

TEST_F(CheckpointFile, foreign_files_are_refused) {
  const std::string text = "#!/bin/sh\necho this is something else altogether, and longer than a header\n";
  EXPECT_EQ(complaint(std::as_bytes(std::span(text))), "not a checkpoint of train_mnist");
  EXPECT_EQ(complaint(std::as_bytes(std::span(text).first(3))), "not a checkpoint of train_mnist");

  auto longer = encode(example());
  longer.push_back(std::byte{0});
  EXPECT_EQ(complaint(longer), "corrupt: 1 bytes too many");

  auto newer = encode(example());
  newer[8] = std::byte{3};
  EXPECT_EQ(complaint(newer), "written in version 3 of the format, this program reads version 2");
}

TEST_F(CheckpointFile, a_lying_header_costs_no_memory) {
  auto bytes = encode(example());
  for (std::size_t i = 48; i < 56; ++i) bytes[i] = std::byte{0xff};
  EXPECT_EQ(complaint(bytes), "corrupt: its header claims 18446744073709551615 parameters");
}

TEST_F(CheckpointFile, an_empty_one_is_refused) { EXPECT_THROW((void)decode({}, "x"), DataError); }

TEST_F(CheckpointFile, random_bytes_after_the_magic_are_refused) {
  std::mt19937_64 random(11);
  const auto good = encode(example());
  for (int i = 0; i < 2000; ++i) {
    auto bytes = good;
    bytes.resize(random() % 200);
    for (std::size_t at = 12; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(random());
    EXPECT_THROW((void)decode(bytes, "x"), DataError);
  }
}

TEST_F(CheckpointFile, what_is_no_file_is_refused) {
  EXPECT_THROW(read_checkpoint(dir_.path()), DataError);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(read_checkpoint(path_), DataError);  // and does not wait for a writer
}

TEST_F(CheckpointFile, of_another_run_is_refused) {
  const Checkpoint saved = example();
  const auto complaint_about = [&](RunSettings settings, std::size_t parameters) -> std::string {
    try {
      require_fits(saved, "x", settings, parameters);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  RunSettings settings = saved.settings;
  EXPECT_EQ(complaint_about(settings, 5), "");
  EXPECT_EQ(complaint_about(settings, 6),
            "cannot use checkpoint x: it is of a run with a number of parameters of 5, this one has 6");
  settings.seed = 1;
  EXPECT_EQ(complaint_about(settings, 5),
            "cannot use checkpoint x: it is of a run with seed 5, this one has 1");
}

TEST_F(CheckpointFile, where_none_can_be_written_is_known_before) {
  EXPECT_NO_THROW(require_writable(path_));
  EXPECT_THROW(require_writable(dir_.file("absent/run.checkpoint")), DataError);
  write_file(path_, {});
  EXPECT_THROW(require_writable(path_ + "/below-a-file"), DataError);
  EXPECT_THROW(write_checkpoint(dir_.file("absent/run.checkpoint"), example()), DataError);
}

// A full disk, made of the limit for the size of files.
TEST_F(CheckpointFile, a_failed_write_leaves_the_one_before) {
  write_checkpoint(path_, example());
  const auto size = std::filesystem::file_size(path_);

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = size - 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  Checkpoint next = example();
  next.epochs_done = 4;
  EXPECT_THROW(write_checkpoint(path_, next), DataError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(read_checkpoint(path_), example());
  EXPECT_EQ(dir_.entries(), 1U);
}

}  // namespace
}  // namespace mnist
