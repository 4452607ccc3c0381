// Engines on servers, from a section of the recipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "routeopd/engine/engine.h"
#include "routeopd/model/model.h"
#include "routeopd/train/inputs.h"
#include "routeopd/train/recipe.h"

namespace routeopd::train {

// The student's servers. They are asked what they are now, and get the weights of inputs.student, which must
// outlive the engine, at each refresh(), in directories of the rank's own.
std::unique_ptr<engine::Engine> make_remote_student(const Recipe& recipe, const Inputs& inputs, int rank = 0);

// The servers of one teacher, by its place in Recipe::run_teachers().
std::unique_ptr<engine::Engine> make_remote_teacher(const Recipe& recipe, const Inputs& inputs,
                                                    std::int32_t teacher);

// The recipe with a rank's share of the servers: every size-th of them, or one that several ranks ask where
// there are fewer. Throws UserError for fewer servers of the student than ranks: each gets its weights from
// one rank.
Recipe with_share_of_servers(Recipe recipe, int rank, int size);

// Throws UserError for a section that names no address, or a wrong one, or a key that is not there or would
// cross a network unencrypted. Asks nobody.
void check_servers(const ServersSection& servers, const std::string& section);

// Throws UserError where a teacher has a server of the student's.
void check_apart(const ServersSection& rollout, const ServersSection& teacher, const std::string& section);

}  // namespace routeopd::train
