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

// In the order of a recipe; the unnamed one first. Without those of [teachers], which a recipe may have any
// number of.
const std::vector<RecipeSection>& recipe_sections();

// [teachers] itself, and [teachers.NAME]: a teacher that is not there reads as the default one, and is made
// where it is set.
RecipeSection teachers_section();
RecipeSection teacher_section(const std::string& name);

}  // namespace routeopd::train
