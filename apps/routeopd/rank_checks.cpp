// SPDX-License-Identifier: Apache-2.0
#include "rank_checks.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "loaded_model.h"
#include "routeopd/base/hashes.h"
#include "routeopd/base/system.h"

namespace routeopd::app {
namespace {

// SHA-256 of the file that this code was loaded from.
std::string program_hash() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&ranks_here), &info) == 0) return "unknown";
  return sha256_of_file(info.dli_fname);
}

// "[section] key" of a recipe's text, and what stands after it.
std::map<std::string, std::string> recipe_lines(const train::Recipe& recipe) {
  std::map<std::string, std::string> lines;
  std::istringstream text(train::recipe_text(recipe));
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with('[')) section = line + " ";
    line.resize(std::min(line.size(), line.rfind("  # ")));  // what the field is for
    if (const std::size_t equals = line.find(" = "); equals != std::string::npos)
      lines["the recipe's " + section + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return lines;
}

}  // namespace

std::map<std::string, std::string> model_hashes(const std::string& whose,
                                                const std::filesystem::path& directory) {
  std::map<std::string, std::string> hashes;
  const Json contents = contents_of(directory);
  for (const auto& [name, hash] : contents.items())
    hashes[fmt::format("the {} of {} (SHA-256)", name, whose)] =
        hash.is_null() ? "none" : hash.get<std::string>();
  return hashes;
}

int ranks_here() {
  const char* const said = std::getenv("LOCAL_WORLD_SIZE");
  return said == nullptr ? 1 : std::max(1, std::atoi(said));
}

void check_same_build(ranks::Group& group) {
  if (group.alone()) return;
  std::map<std::string, std::string> said;
  ranks::together(group, [&] {
    said = {{"the program (SHA-256)", program_hash()},
            {"the processor's instructions",
             fmt::format("{}, kernels for {}", at::get_cpu_capability(), kernel_target())},
            {"the number of threads", std::to_string(at::get_num_threads())}};
  });
  ranks::check_agreement(group, said);
}

void check_ranks_agree(ranks::Group& group, const train::Recipe& recipe) {
  if (group.alone()) return;
  check_same_build(group);
  ranks::check_agreement(group, recipe_lines(recipe));
  std::map<std::string, std::string> files;
  ranks::together(group, [&] {
    files = model_hashes("[student]", recipe.student.path);
    for (const train::RunTeacher& teacher : recipe.run_teachers())
      if (teacher.section->engine == train::EngineKind::kLocal)
        files.merge(model_hashes(fmt::format("[{}]", teacher.section_name()), teacher.section->path));
    std::error_code none;
    if (std::filesystem::is_regular_file(recipe.data.prompts, none))
      files["[data] prompts (SHA-256)"] = sha256_of_file(recipe.data.prompts);
  });
  ranks::check_agreement(group, files);
}

}  // namespace routeopd::app
