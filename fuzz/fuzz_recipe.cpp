// libFuzzer: any bytes as a recipe, cut at 0xFF: the file, then one setting of the command line each. A
// recipe that is read is written as one that reads back equal, whether or not it can run.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/train/recipe.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace train = routeopd::train;
  using routeopd::fuzz::require;
  static const routeopd::fuzz::Scratch scratch("recipe");
  const auto parts = routeopd::fuzz::parts_of(routeopd::fuzz::text_of(data, size));
  train::Recipe recipe;
  try {
    recipe = train::read_recipe(scratch.write("recipe.toml", parts.front()),
                                std::vector<std::string>(parts.begin() + 1, parts.end()));
  } catch (const routeopd::UserError&) {
    return 0;
  }
  const train::Recipe again = train::read_recipe(scratch.write("written.toml", train::recipe_text(recipe)));
  require(train::differences(recipe, again).empty());
  require(train::recipe_text(recipe) == train::recipe_text(again));
  try {
    train::check_recipe(recipe);
    train::check_recipe(train::resolved(recipe));
  } catch (const routeopd::UserError&) {
  }
  return 0;
}
