// A family of the laboratory's tasks: problems that a program can write without end, solutions in three
// hands, and a checker that finds the first mistake of a response without a judge. Families differ in what is
// to be done; how problems are split, addressed and asked is the same for all:
//
//   sums   a person gains and loses things: a chain of small sums (sums.h)
//   lists  a list is added to, dropped from and reversed: a state is followed (lists.h)
//
// All randomness is addressed: problem `number` of a seed is the same whoever asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/judge/labels.h"
#include "routeopd/lab/dice.h"
#include "routeopd/lab/make_options.h"

namespace routeopd::lab {

struct Problem {
  std::string text;    // as it is asked, without the template
  std::string answer;  // a number
  std::string key;     // what is to be done, without the wording: "14+7-9"
};

// Which split a problem belongs to is decided by a hash of its key alone, so that no problem of one split is
// a rewording of one of another: one in eight is held out, one in sixteen is for validation.
enum class Split { kTrain, kValidation, kHeldOut };
Split split_of(std::string_view key);

// Who writes a solution: nobody who errs; the teacher, who errs seldom; the base student with its habits.
enum class Writer { kRight, kTeacher, kBase };

// How a problem is asked: a template with {problem}, as in a recipe.
inline constexpr const char* kTemplate = "Problem: {problem}\nSolution:";

class Task {
 public:
  virtual ~Task() = default;

  virtual std::string name() const = 0;

  Problem make_problem(std::uint64_t seed, Split split, std::uint32_t number) const;

  // A solution of the problem with this text, with the space before it and without an end of sequence. Throws
  // UserError where the text is no problem of the family.
  std::string write_solution(std::string_view problem, std::uint64_t seed, std::uint32_t number,
                             Writer writer) const;

  // Every word of problems and solutions as a token's text, with its leading space where it has one.
  virtual std::vector<std::string> vocabulary() const = 0;

  // Whether the text, which may come from anybody, is a problem of the family.
  virtual bool reads(std::string_view problem) const = 0;

  // The label of a response whose answer is wrong: arithmetic, premature_stop or reasoning (checker.h).
  // Throws UserError where `problem` is no problem of the family; the response may be any text.
  virtual judge::Label check_solution(std::string_view problem, std::string_view response) const = 0;

  // How the committed pair of the family is made.
  virtual MakeOptions make_options() const = 0;

 protected:
  virtual Problem draw_problem(Dice& dice) const = 0;
  virtual std::string write(std::string_view problem, Dice& dice, Writer writer) const = 0;
};

std::vector<std::string> task_names();

// Throws UserError with the known names.
const Task& task_named(const std::string& name);

}  // namespace routeopd::lab
