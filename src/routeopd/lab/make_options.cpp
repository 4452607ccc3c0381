// SPDX-License-Identifier: Apache-2.0
#include "routeopd/lab/make_options.h"

namespace routeopd::lab {
namespace {

Fields<MakeOptions> fields_of_making() {
  using O = MakeOptions;
  const Range steps{.low = 1, .high = 500000}, layers{.low = 1, .high = 64};
  // Four heads share a width, and rotations want an even number of values in each.
  const auto width = [](std::string name, std::int64_t O::* member, std::string help) {
    Field<O> field = number_field(std::move(name), member, std::move(help), {.low = 64, .high = 4096});
    field.set = [set = field.set, member](O& options, const Json& value) {
      set(options, value);
      if (options.*member % 32 != 0) throw UserError("expected a multiple of 32, got {}", shown(value));
    };
    return field;
  };
  Fields<O> fields;
  fields.push_back(
      number_field("seed", &O::seed, "seed of problems and initial weights", {.low = 0, .high = 0x1p53}));
  fields.push_back(width("teacher_hidden", &O::teacher_hidden, "width of the teacher"));
  fields.push_back(number_field("teacher_layers", &O::teacher_layers, "its layers", layers));
  fields.push_back(
      number_field("teacher_steps", &O::teacher_steps, "its steps of 32 right solutions", steps));
  fields.push_back(number_field("mild_steps", &O::mild_steps,
                                "its steps of 32 solutions with seldom slips; 0: it knows right ones alone",
                                {.low = 0, .high = 500000}));
  fields.push_back(width("student_hidden", &O::student_hidden, "width of the student"));
  fields.push_back(number_field("student_layers", &O::student_layers, "its layers", layers));
  fields.push_back(
      number_field("student_steps", &O::student_steps, "its steps of 32 right solutions", steps));
  fields.push_back(
      number_field("base_steps", &O::base_steps, "its steps of 32 solutions with wrong habits", steps));
  const Range problems{.low = 1, .high = 1 << 20};
  fields.push_back(
      number_field("train_prompts", &O::train_prompts, "problems in train.jsonl, at most", problems));
  fields.push_back(
      number_field("validation_problems", &O::validation_problems, "problems in validation.jsonl", problems));
  fields.push_back(
      number_field("heldout_problems", &O::heldout_problems, "problems in heldout.jsonl", problems));
  return fields;
}

}  // namespace

const Fields<MakeOptions>& make_fields() {
  static const Fields<MakeOptions> fields = fields_of_making();
  return fields;
}

MakeOptions with_settings(MakeOptions options, const Json& settings) {
  for (const auto& item : settings.items()) set_field(options, make_fields(), item.key(), item.value());
  return options;
}

Json json_of(const MakeOptions& options) {
  Json json = Json::object();
  for (const Field<MakeOptions>& field : make_fields()) json[field.name] = field.get(options);
  return json;
}

}  // namespace routeopd::lab
