// Every numeric option of every command against words that other readers of numbers take for something else.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../apps/routeopd/program.h"

namespace routeopd {
namespace {

using Words = std::vector<std::string>;

struct Answer {
  int code;
  std::string out, err;
};

Answer run(Words words) {
  words.insert(words.begin(), "routeopd");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = app::run_program(static_cast<int>(argv.size()), argv.data());
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

// With an option that there is not, so that no command begins.
Answer run_with(Words command, const std::string& option, const std::string& word) {
  command.insert(command.end(), {option, word, "--no-such-option"});
  return run(std::move(command));
}

bool refuses(const Words& command, const std::string& option, const std::string& word) {
  const Answer answer = run_with(command, option, word);
  EXPECT_EQ(answer.code, 2) << option << " " << word << ": " << answer.err;
  EXPECT_EQ(answer.out, "") << option << " " << word;
  EXPECT_EQ(answer.err.find('\n'), answer.err.size() - 1) << answer.err;
  return answer.err.starts_with("routeopd: " + option + ":");
}

struct Option {
  Words command;
  std::string name;
  bool whole;  // known to be a whole number from its help
  bool size;   // of bytes
};

// Options whose help says that they are numbers, or that their default is one.
void add_options(const Words& command, std::vector<Option>& options) {
  Words help = command;
  help.emplace_back("--help");
  std::istringstream text(run(help).out);
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("  --")) continue;
    const std::size_t end = line.find_first_of(" ,=", 2);
    const std::string name = line.substr(2, end - 2);
    const std::string rest = end == line.npos ? "" : line.substr(end);
    const std::size_t equals = rest.find('=');
    const bool typed = rest.starts_with(" UINT") || rest.starts_with(" INT"),
               real = rest.starts_with(" FLOAT");
    const std::string standard =
        equals == rest.npos ? "" : rest.substr(equals + 1, rest.find(' ', equals) - equals - 1);
    const bool number = !standard.empty() && std::isdigit(static_cast<unsigned char>(standard[0])) != 0;
    const bool field = number && rest.find(' ') > equals;
    if (typed || real || field)
      options.push_back({command, name, typed || (field && standard.find_first_of(".e") == standard.npos),
                         rest.find("SIZE") != rest.npos});
  }
}

const std::vector<Option>& all_options() {
  static const std::vector<Option> options = [] {
    std::vector<Option> found;
    std::istringstream listing(run({"--help"}).out);
    bool commands = false;
    for (std::string line; std::getline(listing, line);) {
      if (commands && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
        const std::string command = line.substr(2, line.find(' ', 2) - 2);
        add_options({command}, found);
        if (command == "probe") {
          add_options({command, "make"}, found);
          add_options({command, "run"}, found);
        }
        if (command == "lab") add_options({command, "make"}, found);
      }
      commands = commands || line.starts_with("Subcommands");
    }
    return found;
  }();
  return options;
}

TEST(NumberOptions, AreFoundInTheHelp) {
  const auto has = [](const Words& command, const std::string& name, bool whole) {
    for (const Option& option : all_options())
      if (option.command == command && option.name == name && option.whole == whole) return true;
    return false;
  };
  for (const char* command : {"generate", "eval", "explain", "compare", "route"})
    EXPECT_TRUE(has({command}, "--seed", true)) << command;
  EXPECT_TRUE(has({"generate"}, "--max-new", true));
  EXPECT_TRUE(has({"generate"}, "--kv-memory", true));
  EXPECT_TRUE(has({"generate"}, "--temperature", false));
  EXPECT_TRUE(has({"probe", "make"}, "--m", true));
  EXPECT_TRUE(has({"probe", "run"}, "--lr", false));
  EXPECT_TRUE(has({"lab", "make"}, "--seed", true));
  EXPECT_TRUE(has({"study"}, "--steps", true));
  EXPECT_TRUE(has({"serve"}, "--port", true));
  EXPECT_GE(all_options().size(), 90U);
}

TEST(NumberOptions, RefuseWhatIsNoDecimalNumber) {
  for (const Option& option : all_options())
    for (const char* word : {"", " 3", "3 ", "0x10", "nan", "-1", "3x"})
      EXPECT_TRUE(refuses(option.command, option.name, word))
          << option.command[0] << " " << option.name << " '" << word << "'";
}

TEST(NumberOptions, RefuseWhatTheirTypeCannotHold) {
  for (const Option& option : all_options()) {
    if (!option.whole) continue;
    for (const char* word : {"99999999999999999999", "18446744073709551616", "1.5", "-9223372036854775809"})
      EXPECT_TRUE(refuses(option.command, option.name, word))
          << option.command[0] << " " << option.name << " " << word;
  }
}

TEST(NumberOptions, HaveOneValueHoweverItIsWritten) {
  for (const Option& option : all_options()) {
    const auto same = [&](const char* left, const char* right) {
      EXPECT_EQ(refuses(option.command, option.name, left), refuses(option.command, option.name, right))
          << option.command[0] << " " << option.name << " " << left << " " << right;
    };
    same("010", "10");
    same("0", "00");
    if (!option.size) same("1e3", "1000");
  }
  // Octal 400 is 256, the most responses there are.
  EXPECT_TRUE(refuses({"generate"}, "--n", "0400"));
  EXPECT_FALSE(refuses({"generate"}, "--n", "256"));
  EXPECT_FALSE(refuses({"generate"}, "--n", "0256"));
}

TEST(NumberOptions, TakeEverySeedThatThereIs) {
  for (const char* command : {"generate", "eval", "explain", "compare", "route"})
    for (const char* seed : {"0", "9223372036854775807", "9223372036854775808", "18446744073709551615"})
      EXPECT_FALSE(refuses({command}, "--seed", seed)) << command << " " << seed;
}

TEST(NumberOptions, TakeSizesWithUnits) {
  for (const char* size : {"512MB", "8GiB", "8gb", "100 kB", "0", "1000000b"})
    EXPECT_FALSE(refuses({"generate"}, "--kv-memory", size)) << size;
  for (const char* size :
       {"MB", "-1GB", "8XB", "1.5GB", "0x10MB", "99999999999GB", " 8GB", "8 ", "20000000000000000000"})
    EXPECT_TRUE(refuses({"generate"}, "--kv-memory", size)) << size;
}

TEST(NumberOptions, AreBadUsageAlsoInsideOtherWords) {
  const std::string recipe = ROUTEOPD_TEST_DATA "/../recipes/lab.toml";
  for (const char* said : {"seed=-1", "seed=0x10", "train.steps=0", "rollout.n=1.5", "objective.k=-1",
                           "seed=99999999999999999999"})
    EXPECT_EQ(run({"train", recipe, "--show-recipe", "--set", said}).code, 2) << said;
  EXPECT_EQ(run({"train", recipe, "--show-recipe", "--set", "seed=010"}).out.find("seed = 10 "), 0U);
  EXPECT_EQ(run({"plan", recipe, "--gpu", "H100", "--assume", "response_tokens=-1"}).code, 2);
}

}  // namespace
}  // namespace routeopd
