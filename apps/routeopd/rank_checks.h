// What the ranks of a group must have in common before they begin: with anything else their sums would be of
// different things, or round differently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "routeopd/ranks/group.h"
#include "routeopd/train/recipe.h"

namespace routeopd::app {

// Ranks on this machine, which share its memory: torchrun's LOCAL_WORLD_SIZE; 1 without it.
int ranks_here();

// Throws UserError on every rank where they differ in the program, the processor's instructions, the number
// of threads, a field of the recipe, or the bytes of models and prompts.
void check_ranks_agree(ranks::Group& group, const train::Recipe& recipe);

// What an engine's answers depend on in a model's directory, by name: its weights, its configuration, which
// ends a response, and its tokenizer.
std::map<std::string, std::string> model_hashes(const std::string& whose,
                                                const std::filesystem::path& directory);

// The part of it that is not a recipe's.
void check_same_build(ranks::Group& group);

}  // namespace routeopd::app
