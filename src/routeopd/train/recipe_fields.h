// Every field of a recipe: its name, help, check, and where it is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

struct RecipeSection {
  std::string name;  // empty: the keys above all sections
  Fields<Recipe> fields;
};

// In the order of a recipe; the unnamed one first.
const std::vector<RecipeSection>& recipe_sections();

}  // namespace routeopd::train
