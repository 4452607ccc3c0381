// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/task.h"

#include "routeopd/lab/lists.h"
#include "routeopd/lab/sums.h"

namespace routeopd::lab {
namespace {

const std::vector<const Task*>& all_tasks() {
  static const std::vector<const Task*> tasks = {&sums_task(), &lists_task()};
  return tasks;
}

// The first number of an address: what the object is.
std::uint32_t address_of(Split split) {
  return static_cast<std::uint32_t>(split);
}
std::uint32_t address_of(Writer writer) {
  return 16 + static_cast<std::uint32_t>(writer);
}

}  // namespace

// FNV-1a.
Split split_of(std::string_view key) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : key) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  const std::uint64_t place = hash % 16;
  return place < 2 ? Split::kHeldOut : place == 2 ? Split::kValidation : Split::kTrain;
}

Problem Task::make_problem(std::uint64_t seed, Split split, std::uint32_t number) const {
  for (std::uint32_t attempt = 0;; ++attempt) {
    Dice dice(seed, {.step = address_of(split), .prompt = number, .position = attempt});
    Problem problem = draw_problem(dice);
    if (split_of(problem.key) == split) return problem;
  }
}

std::string Task::write_solution(std::string_view problem, std::uint64_t seed, std::uint32_t number,
                                 Writer writer) const {
  Dice dice(seed, {.step = address_of(writer), .prompt = number});
  return write(problem, dice, writer);
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) names.push_back(task->name());
  return names;
}

const Task& task_named(const std::string& name) {
  std::string known;
  for (const Task* task : all_tasks()) {
    if (task->name() == name) return *task;
    known += (known.empty() ? "" : " | ") + task->name();
  }
  throw UserError("family: expected {}, got {}", known, name);
}

}  // namespace routeopd::lab
