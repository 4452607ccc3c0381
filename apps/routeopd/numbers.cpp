// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "routeopd/base/fields.h"

namespace routeopd::app {
namespace {

constexpr const char* kSize = "SIZE";
constexpr double kExact = 0x1p53;  // the whole numbers below it are all doubles

// Rewrites `word` as plain digits. 1e3 is a whole number here as it is in a recipe.
std::string read_whole(std::string& word, bool negative_too) {
  const std::string expected = fmt::format("expected a whole number{} in decimals, got {}",
                                           negative_too ? "" : " from 0 on", word.empty() ? "nothing" : word);
  const Json value = value_of_word(word);
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number != std::floor(number) || std::abs(number) >= kExact) return expected;
    word = std::to_string(static_cast<std::int64_t>(number));
  } else if (value.is_number()) {
    word = value.dump();
  } else {
    return expected;
  }
  if (!negative_too && word.front() == '-') return expected;
  const bool too_large = negative_too && value.is_number_unsigned() &&
                         value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  return too_large ? expected : "";
}

std::string read_real(std::string& word) {
  if (value_of_word(word).is_number()) return "";
  return fmt::format("expected a number in decimals, got {}", word.empty() ? "nothing" : word);
}

std::string read_size(std::string& word) {
  struct Unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                                   {"b", 1},
                                                   {"kb", 1000},
                                                   {"mb", 1000'000},
                                                   {"gb", 1000'000'000},
                                                   {"tb", 1000'000'000'000},
                                                   {"kib", 1ULL << 10},
                                                   {"mib", 1ULL << 20},
                                                   {"gib", 1ULL << 30},
                                                   {"tib", 1ULL << 40}}};
  const std::string expected = fmt::format("expected a number of bytes such as 512MB or 8GiB, got {}",
                                           word.empty() ? "nothing" : word);
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc()) return expected;
  std::string name(rest, static_cast<const char*>(word.data() + word.size()));
  if (!name.empty() && name.front() == ' ') name.erase(0, 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* const unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& each) { return each.name == name; });
  if (unit == kUnits.end() || (rest != word.data() + word.size() && name.empty())) return expected;
  if (number > std::numeric_limits<std::uint64_t>::max() / unit->bytes) return expected;
  word = std::to_string(number * unit->bytes);
  return "";
}

}  // namespace

void read_words(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (option->check_lname("out"))
      option->check(CLI::Validator(
          [](std::string& name) {
            return name.empty() ? std::string("expected a name, got an empty one") : "";
          },
          "", ""));
    if (type.find(kSize) != type.npos) continue;
    if (type.starts_with("UINT")) {
      option->transform(CLI::Validator([](std::string& word) { return read_whole(word, false); }, "", ""));
    } else if (type.starts_with("INT")) {
      option->transform(CLI::Validator([](std::string& word) { return read_whole(word, true); }, "", ""));
    } else if (type.starts_with("FLOAT")) {
      option->transform(CLI::Validator(read_real, "", ""));
    }
  }
  for (CLI::App* const command : app.get_subcommands({})) read_words(*command);
}

CLI::Validator size_in_bytes() {
  return {read_size, kSize, "SIZE"};
}

}  // namespace routeopd::app
