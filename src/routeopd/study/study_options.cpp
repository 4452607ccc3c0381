// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_options.h"

#include <algorithm>
#include <set>

#include "routeopd/lab/lab_file.h"
#include "routeopd/lab/task.h"
#include "routeopd/study/variants.h"

namespace routeopd::study {
namespace {

constexpr std::uint64_t kFirstSeed = 42;
constexpr std::size_t kMostSeeds = 1000;

// A number of seeds, from 42; or the seeds themselves.
Field<StudyOptions> seeds_field(std::string name, std::vector<std::uint64_t> StudyOptions::* member,
                                std::string help) {
  return {
      std::move(name), std::move(help),
      [member](StudyOptions& options, const Json& value) {
        std::vector<std::uint64_t> seeds;
        if (value.is_array()) {
          for (const Json& seed : value)
            seeds.push_back(static_cast<std::uint64_t>(number_in(seed, {.low = 0, .high = 0x1p53}, true)));
        } else {
          const double count = number_in(value, {.low = 1, .high = kMostSeeds}, true);
          for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i)
            seeds.push_back(kFirstSeed + i);
        }
        if (seeds.empty() || seeds.size() > kMostSeeds ||
            std::set<std::uint64_t>(seeds.begin(), seeds.end()).size() != seeds.size())
          throw UserError("expected 1 to {} different seeds, got {}", kMostSeeds, shown(value));
        options.*member = std::move(seeds);
      },
      [member](const StudyOptions& options) { return Json(options.*member); }};
}

// Names with commas between them, or a list.
void set_arms(StudyOptions& options, const Json& value) {
  std::vector<std::string> names;
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      names.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  } else if (value.is_array()) {
    for (const Json& name : value) names.push_back(shown(name));
  } else {
    throw UserError("expected names with commas between them, got {}", shown(value));
  }
  options.arms = std::move(names);
}

Fields<StudyOptions> make_fields() {
  using O = StudyOptions;
  const auto whole = [](double low, double high) { return Range{.low = low, .high = high}; };
  Fields<O> fields;
  fields.push_back(number_field("steps", &O::steps, "steps per run", whole(1, 1e6)));
  fields.push_back(number_field("lr", &O::lr, "learning rate of every arm", {.low = 1e-12, .high = 1}));
  fields.push_back(number_field("k", &O::k, "support: top-k of each model", whole(1, 1 << 20)));
  fields.push_back(number_field("m", &O::m, "pairs sampled per state", whole(1, 1 << 16)));
  fields.push_back(seeds_field("seeds", &O::seeds, "training seeds: how many, from 42"));
  fields.push_back(seeds_field("main_seeds", &O::main_seeds, "the same for the main arms"));
  fields.push_back(number_field("samples", &O::samples, "samples per held-out problem", whole(1, 256)));
  fields.push_back(
      number_field("problems", &O::problems, "problems of each suite; 0: all", whole(0, 1 << 24)));
  fields.push_back(number_field("every", &O::every,
                                "steps between evaluations of the main arms, first seed; 0: at the end alone",
                                whole(0, 1e6)));
  fields.push_back(number_field("states", &O::states, "frozen states of the probes", whole(1, 1 << 20)));
  fields.push_back(number_field("rounds", &O::rounds, "interleaved rounds of the cost part", whole(2, 1000)));
  fields.push_back(
      number_field("prompts_per_step", &O::prompts_per_step, "prompts per step", whole(1, 1 << 20)));
  fields.push_back(number_field("n", &O::n, "responses per prompt", whole(1, 256)));
  fields.push_back(number_field("max_new", &O::max_new, "longest response, in tokens", whole(1, 1 << 24)));
  fields.push_back(number_field("save_every", &O::save_every,
                                "steps between checkpoints: what a killed study loses at most",
                                whole(1, 1e6)));
  fields.push_back(text_field("template", &O::prompt_template,
                              "how a problem is asked: chat, raw, or a text with {problem}"));
  fields.push_back(
      {"arms",
       "the main part's arms, with commas between them, the first being what the others are compared "
       "with; other parts keep to these",
       set_arms, [](const O& options) { return Json(options.arms); }});
  return fields;
}

void check_arms(const StudyOptions& options) {
  std::vector<std::string> known;
  for (const Variant& variant : all_variants(options)) known.push_back(variant.name);
  for (const std::string& arm : options.arms) {
    if (std::find(known.begin(), known.end(), arm) == known.end())
      throw UserError("arms: the study has no arm {}; did you mean {}?", arm, nearest_name(arm, known));
    if (std::count(options.arms.begin(), options.arms.end(), arm) > 1)
      throw UserError("arms: {} is named twice", arm);
  }
}

}  // namespace

std::string absolute_path(const std::filesystem::path& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

StudyPair laboratory_pair(const std::filesystem::path& directory) {
  StudyPair pair;
  pair.family = lab::family_of(directory);
  pair.student = absolute_path(directory / "base");
  pair.teacher = absolute_path(directory / "teacher");
  pair.prompts = absolute_path(directory / "train.jsonl");
  pair.suites["heldout"] = absolute_path(directory / "heldout.jsonl");
  return pair;
}

Json json_of(const StudyPair& pair) {
  return {{"family", pair.family},
          {"student", pair.student},
          {"teacher", pair.teacher},
          {"prompts", pair.prompts},
          {"suites", Json(pair.suites)}};
}

StudyPair pair_of(const Json& json) {
  StudyPair pair;
  if (json.contains("laboratory"))
    throw UserError("it is of an earlier version, whose pair says \"laboratory\" and no family of tasks");
  pair.family = json.at("family").get<std::string>();
  pair.student = json.at("student").get<std::string>();
  pair.teacher = json.at("teacher").get<std::string>();
  pair.prompts = json.at("prompts").get<std::string>();
  pair.suites = json.at("suites").get<std::map<std::string, std::string>>();
  return pair;
}

const Fields<StudyOptions>& study_fields() {
  static const Fields<StudyOptions> fields = make_fields();
  return fields;
}

StudyOptions default_options(bool laboratory, bool quick) {
  StudyOptions options;
  options.prompt_template = lab::kTemplate;
  if (!laboratory) {  // a language model: the method's own settings, and checkpoints that take their time
    options.prompt_template = "chat";
    options.lr = 1e-6;
    options.k = 32;
    options.max_new = 512;
    options.save_every = 10;
  }
  if (quick) {
    options.seeds = options.main_seeds = {kFirstSeed};
    options.steps = 10;
    options.samples = 4;
    options.problems = 60;
    options.states = 128;
    options.rounds = 3;
  }
  return options;
}

StudyOptions with_settings(StudyOptions options, const Json& settings) {
  for (const auto& item : settings.items()) {
    set_field(options, study_fields(), item.key(), item.value());
    // One number of seeds for all, unless the main arms have their own.
    if (item.key() == "seeds" && !settings.contains("main_seeds")) options.main_seeds = options.seeds;
  }
  check_arms(options);
  return options;
}

Json json_of(const StudyOptions& options) {
  Json json = Json::object();
  for (const Field<StudyOptions>& field : study_fields()) json[field.name] = field.get(options);
  return json;
}

}  // namespace routeopd::study
