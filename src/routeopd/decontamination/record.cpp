// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/record.h"

#include <filesystem>
#include <set>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/base/hashes.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::decontamination {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLargestRecord = 16 << 20;

std::string name_of(const std::string& path) {
  return fs::path(path).filename().string();
}

std::string text_at(const Json& object, const char* key) {
  const Json& value = formats::value_or_null(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool is_file(const std::string& path) {
  std::error_code error;
  return path != "-" && fs::is_regular_file(path, error);
}

}  // namespace

std::string record_path(const std::string& file) {
  return file + ".decontaminated.json";
}

void write_record(const DecontaminateOptions& options, const Decontamination& result) {
  Json settings = json_of(options.contamination);
  settings["keep_duplicates"] = options.keep_duplicates;
  settings["keep_conflicts"] = options.keep_conflicts;
  Json tests = Json::array();
  for (const TestCounts& test : result.tests)
    tests.push_back({{"file", name_of(test.file)}, {"sha256", test.sha256}, {"problems", test.problems}});
  Json counts = json_of(result);
  counts["train"]["file"] = name_of(result.train);
  for (Json& test : counts["tests"]) test["file"] = name_of(test["file"].get<std::string>());
  const Json record = {{"version", ROUTEOPD_VERSION},
                       {"sha256", result.out_sha256},
                       {"settings", settings},
                       {"original", {{"file", name_of(result.train)}, {"sha256", result.train_sha256}}},
                       {"tests", tests},
                       {"counts", counts}};
  write_file(record_path(options.out), record.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string contamination_warning(const std::string& prompts, const std::vector<std::string>& suites) {
  const auto advice = [&](const char* what) {
    return fmt::format(
        "{}: {}; `routeopd decontaminate --train {} --test FILE… --out CLEANED` checks and cleans", prompts,
        what, prompts);
  };
  if (!is_file(prompts) || !is_file(record_path(prompts)))
    return advice("never checked against the test sets");
  try {
    const Json record = formats::read_json_object(record_path(prompts), kLargestRecord);
    if (text_at(record, "sha256") != sha256_of_file(prompts))
      return advice("changed since it was checked against the test sets");
    std::set<std::string> checked;
    for (const Json& test : formats::value_or_null(record, "tests")) {
      if (test.is_object()) checked.insert(text_at(test, "sha256"));
    }
    for (const std::string& suite : suites) {
      if (is_file(suite) && !checked.contains(sha256_of_file(suite)))
        return advice(fmt::format("never checked against {}", suite).c_str());
    }
    return "";
  } catch (const UserError&) {
    return advice("its record of a check cannot be read");
  }
}

}  // namespace routeopd::decontamination
