// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/lab_file.h"

#include "routeopd/base/files.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/lab/task.h"

namespace routeopd::lab {
namespace {

constexpr int kLabVersion = 1;
constexpr std::int64_t kMostLabBytes = 1 << 16;

}  // namespace

void write_lab_file(const std::filesystem::path& directory, const std::string& family,
                    const MakeOptions& options) {
  Json file = json_of(options);
  file["kind"] = "laboratory";
  file["version"] = kLabVersion;
  file["family"] = family;
  write_file(directory / kLabFile, file.dump(2) + "\n");
}

std::string family_of(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kLabFile;
  if (!std::filesystem::exists(path))
    throw UserError("{}: is no laboratory, it has no {}; make one with `routeopd lab make --out DIR`",
                    directory.string(), kLabFile);
  const Json file = formats::read_json_object(path, kMostLabBytes);
  const Json& family = formats::value_or_null(file, "family");
  if (formats::value_or_null(file, "kind") != "laboratory" ||
      formats::value_or_null(file, "version") != kLabVersion || !family.is_string())
    throw UserError("{}: is no laboratory of version {}; make one with `routeopd lab make --out DIR`",
                    path.string(), kLabVersion);
  return formats::naming(path.string(), [&] { return task_named(family.get<std::string>()).name(); });
}

}  // namespace routeopd::lab
