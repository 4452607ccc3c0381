// JSONL and TOML as users write them, with the errors they get.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "routeopd/formats/json_lines.h"
#include "routeopd/formats/toml_settings.h"
#include "testing_errors.h"

namespace routeopd::formats {
namespace {

using ::testing::HasSubstr;

class FileWith {
 public:
  explicit FileWith(const std::string& text)
      : path_(std::filesystem::path(::testing::TempDir()) / ("formats-" + std::to_string(::getpid()))) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~FileWith() { std::filesystem::remove(path_); }
  FileWith(const FileWith&) = delete;
  FileWith& operator=(const FileWith&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(JsonLines, ReadsObjectsPassesOverBlankLinesAndCountsThem) {
  const FileWith file("{\"a\":1}\n\n  \r\n{\"a\":2}\r\n{\"a\":3}");
  JsonLines lines(file.path());
  EXPECT_EQ((*lines.next())["a"], 1);
  EXPECT_EQ((*lines.next())["a"], 2);
  EXPECT_EQ(lines.line(), 4);
  EXPECT_EQ((*lines.next())["a"], 3) << "the last line needs no line feed";
  EXPECT_FALSE(lines.next());
}

TEST(JsonLines, NamesTheLineThatIsWrong) {
  const FileWith file("{\"a\":1}\n[2]\n");
  JsonLines lines(file.path());
  lines.next();
  EXPECT_THAT(error_of([&] { lines.next(); }), HasSubstr(":2: expected a JSON object, got array"));
  const FileWith cut("{\"a\":1}\n{\"a\":");
  JsonLines short_lines(cut.path());
  short_lines.next();
  EXPECT_THAT(error_of([&] { short_lines.next(); }),
              HasSubstr(":2: expected one JSON object per line, got a line that ends"));
  EXPECT_THAT(error_of([] { JsonLines("no/such/file"); }), HasSubstr("no/such/file: cannot be read"));
}

TEST(JsonLines, ReadsLinesOfAnyLengthUpToItsBound) {
  const auto line_of = [](std::size_t bytes) { return "{\"a\":\"" + std::string(bytes - 8, 'x') + "\"}"; };
  std::string text;
  for (std::size_t bytes = (1 << 14) - 3; bytes < (1 << 14) + 3; ++bytes) text += line_of(bytes) + "\n";
  const FileWith file(text +
                      line_of(1 << 14));  // about the parts that it is read in, the last without a line feed
  JsonLines lines(file.path());
  for (std::size_t bytes = (1 << 14) - 3; bytes < (1 << 14) + 3; ++bytes) {
    ASSERT_TRUE(lines.next());
    EXPECT_EQ(lines.text(), line_of(bytes));
  }
  ASSERT_TRUE(lines.next());
  EXPECT_EQ(lines.text(), line_of(1 << 14));
  EXPECT_FALSE(lines.next());
  EXPECT_EQ(lines.line(), 7);

  const FileWith endless("{}\n");
  std::filesystem::resize_file(endless.path(),
                               std::uintmax_t{300} << 20);  // zero bytes, none of them on the disk
  JsonLines bounded(endless.path());
  bounded.next();
  EXPECT_THAT(error_of([&] { bounded.next(); }), HasSubstr(":2: expected at most 268435456 bytes in a line"));
}

TEST(JsonLines, KeysStandOnceAndLevelsAreBounded) {
  const FileWith file("{\"id\":1,\"id\":2}\n");
  JsonLines lines(file.path());
  EXPECT_THAT(error_of([&] { lines.next(); }), HasSubstr(":1: expected each key once, got id twice"));
}

TEST(TomlSection, ReadsEveryKindOfValue) {
  const FileWith file("seed = 3\n[objective]\narm = \"fixed_mid\"\nk = 16\nkappa = 0.5\n[other]\nx = 1\n");
  const Json section = toml_section(file.path(), "objective");
  EXPECT_EQ(section, (Json{{"arm", "fixed_mid"}, {"k", 16}, {"kappa", 0.5}}));
  EXPECT_EQ(toml_section(file.path(), "missing"), Json::object());
  EXPECT_THAT(error_of([&] { toml_section(file.path(), "seed"); }),
              HasSubstr("expected seed to be a section"));
}

TEST(TomlSection, NamesTheLineThatIsNotToml) {
  const FileWith file("[objective]\nk = = 3\n");
  EXPECT_THAT(error_of([&] { toml_section(file.path(), "objective"); }), HasSubstr(":2: not TOML"));
  EXPECT_THAT(error_of([] { toml_section("no/such/file", "objective"); }), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace routeopd::formats
