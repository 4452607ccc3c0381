// Routes, loss and gradients of the trainer for a rollout that is given, so that other implementations can be
// held against them (python/tests/integrations/test_same_numbers.py).
//
//   learner_gradients RECIPE BATCH OUT [--given FILE] [--set SECTION.KEY=VALUE]…
//
// BATCH has a line per response: {"prompt": [id…], "response": [id…], "mask": [0 | 1…], "address": [[step,
// prompt, response, position]…]}; a mask of 0 is a token that the student did not write. FILE holds both
// models' values at the states, in place of what the engines of the recipe say of them. OUT is safetensors:
// "loss", "gradient.NAME" of every weight, and the routes of the states that count, one after another.
//
// Shapes: N states, K columns of a top-k, M pairs per state, L = sum of the support sizes.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/formats/safetensors.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/train/stages.h"

namespace routeopd::train {
namespace {

struct GivenBatch {
  Rollout rollout;
  std::vector<Validity> masked_N;  // kNotGenerated where the mask is 0
};

GivenBatch read_batch(const std::string& path) {
  formats::JsonLines lines(path);
  GivenBatch batch;
  Rollout& rollout = batch.rollout;
  while (const std::optional<Json> line = lines.next()) {
    const auto response = line->at("response").get<std::vector<std::int32_t>>();
    const auto mask = line->at("mask").get<std::vector<int>>();
    const auto address = line->at("address").get<std::vector<std::array<std::uint32_t, 4>>>();
    if (mask.size() != response.size() || address.size() != response.size())
      throw UserError("{}: expected a mask and an address for each of {} tokens", lines.where(),
                      response.size());
    rollout.responses_B.push_back({.prompt = static_cast<std::int32_t>(rollout.prompt_ids_P.size()),
                                   .first_state = rollout.states(),
                                   .length = std::ssize(response)});
    rollout.prompt_ids_P.push_back(line->at("prompt"));
    for (std::size_t j = 0; j < response.size(); ++j) {
      const auto [step, prompt, sample, position] = address[j];
      rollout.id_N.push_back(response[j]);
      rollout.address_N.push_back({step, prompt, sample, position});
      batch.masked_N.push_back(mask[j] != 0 ? Validity::kValid : Validity::kNotGenerated);
    }
  }
  rollout.logprob_N.resize(rollout.id_N.size());
  return batch;
}

template <class T>
std::vector<T> values_of(const formats::Safetensors& file, const std::string& name, std::int64_t states) {
  const formats::TensorView* view = file.find(name);
  const auto type = std::is_same_v<T, float> ? formats::TensorType::kF32 : formats::TensorType::kI32;
  if (view == nullptr || view->type != type || view->shape.empty() || view->shape[0] != states)
    throw UserError("{}: expected a tensor {} of type {} with {} rows", file.path().string(), name,
                    formats::name_of(type), states);
  std::vector<T> values(view->bytes.size() / sizeof(T));
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

// What the scoring stage would have made, from the file.
Scores given_scores(const std::string& path, Rollout& rollout) {
  const formats::Safetensors file(path);
  const std::int64_t states = rollout.states();
  const auto floats = [&](const std::string& name) { return values_of<float>(file, name, states); };
  rollout.top_ids_NK = values_of<std::int32_t>(file, "student_ids", states);
  rollout.top_logits_NK = floats("student_logits");
  rollout.logsumexp_N = floats("student_logsumexp");
  rollout.logprob_N = floats("student_taken");
  Scores scores;
  scores.teacher_ids_NJ = values_of<std::int32_t>(file, "teacher_ids", states);
  scores.teacher_logits_NJ = floats("teacher_logits");
  scores.teacher_logsumexp_N = floats("teacher_logsumexp");
  scores.teacher_at_student_NK = floats("teacher_at_student");
  scores.student_at_teacher_NJ = floats("student_at_teacher");
  scores.teacher_logprob_N = floats("teacher_taken");
  rollout.columns = scores.columns = static_cast<std::int32_t>(std::ssize(rollout.top_ids_NK) / states);
  if (scores.teacher_ids_NJ.size() != rollout.top_ids_NK.size())
    throw UserError("{}: expected as many ids of the teacher as of the student", path);
  scores.validity_N.resize(rollout.id_N.size());
  return scores;
}

// Collects what is to be written; owns the bytes that do not live elsewhere.
class Answer {
 public:
  template <class T>
  void add(const std::string& name, const std::vector<T>& values, std::int64_t rows) {
    const at::ScalarType type = c10::CppTypeToScalarType<T>::value;
    const std::int64_t columns = rows == 0 ? 0 : std::ssize(values) / rows;
    add(name, at::from_blob(const_cast<T*>(values.data()), {rows, columns}, type).clone());
  }

  void add(const std::string& name, const at::Tensor& tensor) {
    tensors_.push_back(tensor.contiguous());
    names_.push_back(name);
  }

  void write(const std::string& path) const {
    std::vector<formats::TensorView> views;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const at::Tensor& tensor = tensors_[i];
      const auto type = tensor.scalar_type() == at::kInt      ? formats::TensorType::kI32
                        : tensor.scalar_type() == at::kDouble ? formats::TensorType::kF64
                                                              : formats::TensorType::kF32;
      views.push_back({names_[i],
                       type,
                       tensor.sizes().vec(),
                       {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
    }
    formats::write_safetensors(path, views);
  }

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
};

// Rows of the states that count, of an array with the same number of columns for every state.
template <class T>
std::vector<T> counted(const std::vector<T>& values, const std::vector<Validity>& validity_N) {
  const std::size_t columns = values.size() / validity_N.size();
  std::vector<T> kept;
  for (std::size_t n = 0; n < validity_N.size(); ++n) {
    if (validity_N[n] != Validity::kValid) continue;
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(n * columns);
    kept.insert(kept.end(), row, row + static_cast<std::ptrdiff_t>(columns));
  }
  return kept;
}

void add_routes(Answer& answer, const Routes& routes) {
  const auto states = std::ranges::count(routes.validity_N, Validity::kValid);
  const auto add = [&](const std::string& name, const auto& values) {
    answer.add(name, counted(values, routes.validity_N), states);
  };
  add("source", routes.source_NM);
  add("destination", routes.destination_NM);
  add("target", routes.target_NM);
  add("weight", routes.weight_N);
  const Support& support = routes.support;  // states that do not count own nothing of it
  std::vector<std::int32_t> sizes_N;
  for (std::size_t n = 1; n < support.offsets_N1.size(); ++n)
    sizes_N.push_back(static_cast<std::int32_t>(support.offsets_N1[n] - support.offsets_N1[n - 1]));
  if (sizes_N.empty()) return;
  add("support_sizes", sizes_N);
  answer.add("support_ids", support.ids_L, std::ssize(support.ids_L));
  answer.add("support_p_student", support.p_student_L, std::ssize(support.ids_L));
  answer.add("support_p_teacher", support.p_teacher_L, std::ssize(support.ids_L));
  answer.add("support_bounded", support.bounded_L, std::ssize(support.ids_L));
}

struct Arguments {
  std::string recipe, batch, out, given;
  std::vector<std::string> settings;
};

void run(const Arguments& arguments) {
  const Recipe recipe = resolved(read_recipe(arguments.recipe, arguments.settings));
  check_recipe(recipe);
  const tokenizer::Tokenizer tokenizer(recipe.student.path);
  Inputs inputs = load_inputs(recipe, tokenizer);
  auto [rollout, masked_N] = read_batch(arguments.batch);
  Stages stages(recipe, inputs);
  stages.refresh();
  Scores scores = arguments.given.empty() ? stages.score(rollout) : given_scores(arguments.given, rollout);
  for (std::size_t n = 0; n < masked_N.size(); ++n)
    scores.validity_N[n] = first_reason(masked_N[n], scores.validity_N[n]);
  const Routes routes = stages.route(rollout, scores);

  // A first update: where values are given, the old ones are those of its own forward, as in a run whose
  // engine is not the learner's.
  Learner learner(inputs.student, {}, inputs.real_ids, recipe);
  OldValues own{routes.old_NM, routes.support.old_logits_L, rollout.logprob_N};
  const BatchResult result = learner.loss_gradients().accumulate(
      stages.experience(rollout, scores, routes), 0, rollout.responses_B.size(),
      {.values = arguments.given.empty() ? nullptr : &own, .first = true});

  Answer answer;
  answer.add("loss", at::full({1}, result.loss, at::kDouble));
  add_routes(answer, routes);
  const std::vector<at::Tensor> gradients = learner.loss_gradients().gradients();
  const std::vector<model::Parameter> parameters = model::trainable(inputs.student);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    answer.add("gradient." + parameters[i].name, gradients[i]);
  answer.write(arguments.out);
}

}  // namespace
}  // namespace routeopd::train

int main(int argc, char** argv) {
  CLI::App app("Routes, loss and gradients of the trainer for a given rollout", "learner_gradients");
  routeopd::train::Arguments arguments;
  app.add_option("RECIPE", arguments.recipe)->required();
  app.add_option("BATCH", arguments.batch)->required();
  app.add_option("OUT", arguments.out)->required();
  app.add_option("--given", arguments.given);
  app.add_option("--set", arguments.settings)->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  try {
    routeopd::train::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "learner_gradients: %s\n", error.what());
    return 1;
  }
  return 0;
}
