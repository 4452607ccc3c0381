// The state bank: states that a student visited, frozen with what both models say there, so that every method
// and every checkpoint is asked about the same local problems. One file holds it (bank_file.h).
//
// What belongs to the states is the same for every student: prompts, prefixes, positions, the addresses of
// the random numbers, and the teacher's last hidden states. What belongs to the student that wrote them (the
// support, both models' logits there, the routes) serves that student; for another one, a checkpoint say, it
// is made anew on the same states.
//
// Shapes: N states of the kept responses, S of them in the bank, M pairs per state, L = sum of the support
// sizes, X the teacher's hidden size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routeopd/engine/engine.h"
#include "routeopd/model/model.h"
#include "routeopd/routing/options.h"
#include "routeopd/routing/reference.h"
#include "routeopd/types/prompt.h"
#include "routeopd/types/rollout.h"

namespace routeopd::probe {

// One student's problem at every state of a bank.
struct Frozen {
  std::vector<routing::reference::Transport> transport_S;  // U, p_S, p_T, E, D, q-, q+, potentials
  std::vector<float> teacher_logits_L;                     // on U, one state after another
  std::vector<double> student_logsumexp_S, teacher_logsumexp_S;
  std::vector<double> student_entropy_S, teacher_entropy_S;  // full vocabulary, nats

  // The routes of the bank's objective; -1 where a state has none.
  std::int32_t pairs = 0;  // M
  std::vector<std::int32_t> source_SM, destination_SM;
  std::vector<float> target_SM;
};

struct BankModel {
  std::string path;
  std::string sha256;  // of the weights; empty: not from files
};

struct Bank {
  BankModel student, teacher;
  std::int32_t real_ids = 0;
  std::uint64_t seed = 42;
  routing::ObjectiveOptions objective;  // of the frozen routes
  std::string sha256;                   // of the whole bank, as in its file

  // The responses that have states in the bank, each cut after its last one; ids and addresses, nothing
  // captured.
  Rollout rollout;
  std::vector<std::size_t> states_S;     // rows of the rollout, ascending
  std::vector<std::int32_t> sequence_S;  // the response of each
  at::Tensor teacher_hidden_SX;          // float32
  Frozen frozen;

  std::size_t states() const { return states_S.size(); }
};

struct BankOptions {
  std::int64_t states = 1024;
  std::int64_t max_new_tokens = 256;
  std::uint64_t seed = 42;
  routing::ObjectiveOptions objective{};  // a routed one with sampled pairs and a support that is a number
};

// Throws UserError for an objective whose routes a bank cannot hold.
void check_bank_objective(const routing::ObjectiveOptions& objective);

// Lets the student answer every prompt once, at temperature 1.
Rollout visit_states(engine::Engine& student, std::span<const Prompt> prompts, const BankOptions& options);

// Freezes `states` of the visited states, chosen by addressed random numbers. Both models' weights are needed
// here: hidden states come from the learner's forward. Throws UserError when fewer states were visited, or
// the objective draws no pairs.
Bank make_bank(const Rollout& visited, const model::Model& student, const model::Model& teacher,
               std::int32_t real_ids, const BankOptions& options);

// `wanted` of `count` places, ascending: those with the smallest addressed random numbers, the same whoever
// asks.
std::vector<std::size_t> choose_states(std::size_t count, std::size_t wanted, std::uint64_t seed);

}  // namespace routeopd::probe
