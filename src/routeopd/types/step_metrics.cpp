// SPDX-License-Identifier: Apache-2.0
#include "routeopd/types/step_metrics.h"

#include <algorithm>
#include <cmath>

namespace routeopd {
namespace {

// Nothing that is measured is larger: sums and squares of these stay finite, and doubles hold every whole
// number.
constexpr double kMostNumber = 1e15;

double metric_number(const Json& value) {
  if (!value.is_number()) throw UserError("expected a number, got {}", value.type_name());
  const double number = value.get<double>();
  if (!(std::abs(number) <= kMostNumber)) throw UserError("expected a number up to {:g}", kMostNumber);
  return number;
}

std::int64_t metric_count(const Json& value) {
  const double number = metric_number(value);
  if (number < 0 || number != std::floor(number))
    throw UserError("expected a whole number from 0, got {}", value.dump());
  return static_cast<std::int64_t>(number);
}

Field<StepMetrics> value_metric(std::string name, StepMetrics::Value StepMetrics::* member,
                                std::string help) {
  return {
      std::move(name), std::move(help),
      [member](StepMetrics& metrics, const Json& value) { metrics.*member = metric_number(value); },
      [member](const StepMetrics& metrics) { return metrics.*member ? Json(*(metrics.*member)) : Json(); }};
}

Field<StepMetrics> count_metric(std::string name, std::int64_t StepMetrics::* member, std::string help) {
  return {std::move(name), std::move(help),
          [member](StepMetrics& metrics, const Json& value) { metrics.*member = metric_count(value); },
          [member](const StepMetrics& metrics) { return Json(metrics.*member); }};
}

template <class Number>
Field<StepMetrics> map_metric(std::string name, std::map<std::string, Number> StepMetrics::* member,
                              std::string help, Number (*read)(const Json&)) {
  return {std::move(name), std::move(help),
          [member, read](StepMetrics& metrics, const Json& value) {
            if (!value.is_object()) throw UserError("expected an object, got {}", value.type_name());
            std::map<std::string, Number> all;
            for (const auto& item : value.items()) all[item.key()] = read(item.value());
            metrics.*member = std::move(all);
          },
          [member](const StepMetrics& metrics) {
            Json all = Json::object();
            for (const auto& [inner, number] : metrics.*member) all[inner] = number;
            return all;
          }};
}

Field<StepMetrics> memory_metric() {
  return {"memory", "peak_bytes: the largest resident size so far",
          [](StepMetrics& metrics, const Json& value) {
            if (!value.is_object()) throw UserError("expected an object, got {}", value.type_name());
            metrics.peak_bytes = metric_count(value.value("peak_bytes", Json(0)));
          },
          [](const StepMetrics& metrics) { return Json{{"peak_bytes", metrics.peak_bytes}}; }};
}

// Each number of a teacher under its name, and the member that has it.
const Fields<TeacherMetrics>& teacher_metric_fields() {
  using T = TeacherMetrics;
  const auto count = [](std::string name, std::int64_t T::* member) {
    return Field<T>{std::move(name), "",
                    [member](T& teacher, const Json& value) { teacher.*member = metric_count(value); },
                    [member](const T& teacher) { return Json(teacher.*member); }};
  };
  const auto mean = [](std::string name, std::optional<double> T::* member) {
    return Field<T>{
        std::move(name), "",
        [member](T& teacher, const Json& value) { teacher.*member = metric_number(value); },
        [member](const T& teacher) { return teacher.*member ? Json(*(teacher.*member)) : Json(); }};
  };
  static const Fields<T> fields = {count("states", &T::states), count("valid", &T::valid),
                                   mean("mass", &T::mass),      mean("routed_share", &T::routed_share),
                                   count("calls", &T::calls),   count("tokens", &T::tokens)};
  return fields;
}

TeacherMetrics teacher_metrics_of(const Json& object) {
  if (!object.is_object()) throw UserError("expected an object, got {}", object.type_name());
  TeacherMetrics teacher;
  for (const Field<TeacherMetrics>& field : teacher_metric_fields()) {
    const auto found = object.find(field.name);
    if (found != object.end() && !found->is_null()) field.set(teacher, *found);
  }
  return teacher;
}

Field<StepMetrics> teachers_metric() {
  return {"teachers",
          "where there are several, by name: states, valid, mass and routed_share (means over its valid "
          "states), calls, tokens",
          [](StepMetrics& metrics, const Json& value) {
            if (!value.is_object()) throw UserError("expected an object, got {}", value.type_name());
            std::map<std::string, TeacherMetrics> all;
            for (const auto& item : value.items()) all[item.key()] = teacher_metrics_of(item.value());
            metrics.teachers = std::move(all);
          },
          [](const StepMetrics& metrics) {
            if (metrics.teachers.empty()) return Json();
            Json all = Json::object();
            for (const auto& [name, teacher] : metrics.teachers)
              for (const Field<TeacherMetrics>& field : teacher_metric_fields())
                all[name][field.name] = field.get(teacher);
            return all;
          }};
}

void add_scalars(const Json& object, const std::string& prefix,
                 std::vector<std::pair<std::string, double>>& scalars) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_scalars(value, prefix + name + "/", scalars);
    if (value.is_number()) scalars.emplace_back(prefix + name, value.get<double>());
  }
}

}  // namespace

const Fields<StepMetrics>& step_metric_fields() {
  using M = StepMetrics;
  static const Fields<M> fields = {
      count_metric("step", &M::step, "steps done, from 1"),
      count_metric("tokens", &M::tokens, "tokens of all responses"),
      value_metric("loss", &M::loss, "per valid state, over the first pass over the step's data"),
      value_metric("lr", &M::lr, "learning rate of the last update"),
      value_metric("grad_norm", &M::grad_norm, "before the clip, the largest of the updates"),
      count_metric("skipped_updates", &M::skipped_updates, "without a valid state or a finite gradient"),
      value_metric("mass", &M::mass, "mismatch mass M, mean over valid states"),
      value_metric("concentration", &M::concentration, "demand concentration c, mean over routed states"),
      value_metric("budget", &M::budget, "budget B in log-odds, mean over routed states"),
      value_metric("saturated", &M::saturated, "share of the union with |g| >= B, over routed states"),
      value_metric("coverage", &M::coverage, "share of q+ on the sampled destinations, over routed states"),
      value_metric("routed_share", &M::routed_share, "routed among valid states"),
      value_metric("student_mass", &M::student_mass, "the student's probability of the support"),
      value_metric("teacher_mass", &M::teacher_mass, "the teacher's probability of the support"),
      value_metric("entropy", &M::entropy, "the student's, nats, a lower bound"),
      value_metric("teacher_entropy", &M::teacher_entropy, "the teacher's, nats, a lower bound"),
      value_metric("policy_entropy", &M::policy_entropy,
                   "the student's over the whole vocabulary, nats, mean over response tokens"),
      value_metric("capture_error", &M::capture_error, "rms of Delta at the first minibatch: rounding"),
      map_metric(
          "engine_gap", &M::engine_gap,
          "rms of learner's - engine's values at the first forward, nats, and the share of states past "
          "0.05",
          &metric_number),
      count_metric("floored", &M::floored, "teacher values at -inf that counted as log delta_p"),
      value_metric("response_tokens", &M::response_tokens, "tokens per response"),
      value_metric("clip_ratio", &M::clip_ratio, "share of the responses cut at max_new_tokens"),
      count_metric("teacher_calls", &M::teacher_calls, "responses that the teacher read"),
      count_metric("teacher_tokens", &M::teacher_tokens, "tokens that it read, prompts included"),
      teachers_metric(),
      map_metric("validity", &M::validity, "states by reason, and those of the valid ones not routed",
                 &metric_count),
      map_metric("servers", &M::servers,
                 "at the servers of rollout and teacher: requests repeated, values had another way",
                 &metric_count),
      map_metric(
          "exchange", &M::exchange,
          "with several ranks: ranks, gradient bytes that one handed over, those of whole tables, seconds, "
          "tokens of the busiest rank over an equal share",
          &metric_number),
      map_metric("time", &M::time, "seconds by stage, `save` being that of the step before", &metric_number),
      memory_metric()};
  return fields;
}

double StepMetrics::seconds() const {
  const auto total = time.find("total");
  return total == time.end() ? 0 : total->second;
}

Json json_of(const StepMetrics& metrics) {
  Json line = Json::object();
  for (const Field<StepMetrics>& field : step_metric_fields()) line[field.name] = field.get(metrics);
  return line;
}

StepMetrics step_metrics_of(const Json& line, const WrongMetric& wrong) {
  StepMetrics metrics;
  if (!line.is_object()) return metrics;
  for (const Field<StepMetrics>& field : step_metric_fields()) {
    const auto found = line.find(field.name);
    if (found == line.end() || found->is_null()) continue;
    try {
      field.set(metrics, *found);
    } catch (const UserError& error) {
      if (wrong) wrong(field.name, error.what());
    }
  }
  return metrics;
}

StepMetrics::Value metric_named(std::string_view name, const StepMetrics& metrics) {
  const Fields<StepMetrics>& fields = step_metric_fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field<StepMetrics>& one) { return one.name == name; });
  if (field == fields.end()) return std::nullopt;
  const Json value = field->get(metrics);
  return value.is_number() ? StepMetrics::Value(value.get<double>()) : std::nullopt;
}

std::vector<std::pair<std::string, double>> scalars_of(const StepMetrics& metrics) {
  Json line = json_of(metrics);
  line.erase("step");
  std::vector<std::pair<std::string, double>> scalars;
  add_scalars(line, "", scalars);
  return scalars;
}

std::string note_of(const StepMetrics& metrics) {
  std::string note;
  const auto add = [&](const std::string& words) { note += (note.empty() ? "" : ", ") + words; };
  if (metrics.loss) add(fmt::format("loss {:.5f}", *metrics.loss));
  if (metrics.mass) add(fmt::format("mass {:.4f}", *metrics.mass));
  if (metrics.routed_share) add(fmt::format("routed {:.0f} %", 100 * *metrics.routed_share));
  if (metrics.seconds() > 0)
    add(fmt::format("{:.0f} tokens/s", static_cast<double>(metrics.tokens) / metrics.seconds()));
  return note;
}

}  // namespace routeopd
