// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_files.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "routeopd/base/files.h"
#include "routeopd/base/hashes.h"
#include "routeopd/base/system.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/model_contents.h"
#include "routeopd/formats/weight_files.h"

namespace routeopd::study {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostManifestBytes = 1 << 26;
constexpr std::int64_t kVersion = 2;
constexpr const char* kRuns = "runs";  // the folders
constexpr const char* kTune = "tune";
// Of all arms, where there are no validation problems to choose one by: the method's own, and one of the
// laboratory's grid.
constexpr double kUntunedRate = 1e-6, kUntunedLaboratoryRate = 5e-4;

// What says how rates are chosen.
constexpr std::array kTuneFields = {"lrs",           "tune_seeds", "tune_samples",
                                    "tune_problems", "tune_steps", "tune_arms"};

// What the pair's files hold: the same paths may hold something else when a study is resumed.
Json contents_of(const StudyPair& pair) {
  Json suites = Json::object();
  for (const auto& [name, path] : pair.suites) suites[name] = sha256_of_file(path);
  return {{"student", formats::weights_sha256(pair.student)},
          {"teacher", formats::weights_sha256(pair.teacher)},
          {"prompts", sha256_of_file(pair.prompts)},
          {"suites", suites},
          {"validation", pair.validation.empty() ? Json() : Json(sha256_of_file(pair.validation))}};
}

// Throws for a record whose rates were chosen by a file that this study judges by or trains on. Single
// problems are compared when they are loaded (LoadedPair).
void check_chosen_apart(const std::string& record, const Json& contents) {
  const Json content =
      formats::value_or_null(formats::read_json_object(record, kMostManifestBytes), "content");
  const Json& validation = formats::value_or_null(content, "validation");
  if (!validation.is_string()) throw UserError("{}: does not say what its rates were chosen by", record);
  const Json& suites = contents["suites"];
  const bool judged =
      std::any_of(suites.begin(), suites.end(), [&](const Json& suite) { return suite == validation; });
  if (judged || contents["prompts"] == validation)
    throw UserError(
        "{}: its rates were chosen by the very problems that this study {}; take those of another study, or "
        "tune",
        record, judged ? "judges by" : "trains on");
}

// What else makes a model write and read as it does.
Json model_files_of(const StudyPair& pair) {
  Json files = Json::object();
  for (const bool teacher : {false, true}) {
    const Json own = formats::model_files_sha256(teacher ? pair.teacher : pair.student);
    for (const auto& [name, hash] : own.items())
      files[fmt::format("{}/{}", teacher ? "teacher" : "student", name)] = hash;
  }
  return files;
}

Json this_machine() {
  return {{"cpu", cpu_model()}, {"threads", at::get_num_threads()}};
}

std::string machine_text(const Json& machine) {
  return fmt::format("{} with {} threads", shown(formats::value_or_null(machine, "cpu")),
                     shown(formats::value_or_null(machine, "threads")));
}

[[noreturn]] void refuse(const fs::path& path, const std::string& field, const Json& there,
                         const Json& said) {
  const auto words = [](const Json& value) { return value == "" ? "none" : shown(value); };
  throw UserError(
      "{}: the study was begun with another {} ({}, now {}); say the same, or name another directory",
      path.string(), field, words(there), words(said));
}

// Fields of `said` that `there` has otherwise.
void check_same(const fs::path& path, const Json& there, const Json& said, const std::string& prefix) {
  for (const auto& item : said.items()) {
    const Json& before = formats::value_or_null(there, item.key().c_str());
    if (before != item.value()) refuse(path, prefix + item.key(), before, item.value());
  }
}

// Whether two entries are of the same thing: probes have a name, runs a name, a seed and a rate.
bool is_same_entry(const Json& a, const Json& b) {
  const auto same = [&](const char* field) {
    return formats::value_or_null(a, field) == formats::value_or_null(b, field);
  };
  return same("name") && same("seed") && same("shared");
}

// In the place of the same entry, else at the end.
void put_entry(const Json& entry, Json& entries) {
  const auto same = std::find_if(entries.begin(), entries.end(),
                                 [&](const Json& other) { return is_same_entry(entry, other); });
  if (same == entries.end()) {
    entries.push_back(entry);
  } else {
    *same = entry;
  }
}

}  // namespace

StudyTerms terms_of(const StudyRequest& request) {
  if (!request.pair)
    throw UserError(
        "no study is there to resume; name a pair with --lab, with a recipe, or with --student, --teacher "
        "and "
        "--prompts");
  StudyTerms terms{.pair = *request.pair, .options = {}, .recipe = {}, .rates = {}};
  const StudyPair& pair = terms.pair;
  StudyOptions& options = terms.options;
  options = with_settings(request.recipe ? recipe_options(*request.recipe, request.quick)
                                         : default_options(!pair.family.empty(), request.quick),
                          request.settings);
  if (!options.rates.empty()) {
    if (request.settings.contains("lr") && options.lr)
      throw UserError(
          "lr and rates exclude each other: say one learning rate for all, or a record of tuning");
    options.lr.reset();
    options.rates = absolute_path(options.rates);
  } else if (!request.settings.contains("lr")) {
    // Problems to choose rates by mean that they are to be chosen; without any, one rate is all there is.
    if (!pair.validation.empty())
      options.lr.reset();
    else if (options.tuned())
      options.lr = !pair.family.empty() ? kUntunedLaboratoryRate : kUntunedRate;
  } else if (options.tuned() && pair.validation.empty()) {
    throw UserError(
        "lr is to be tuned, and there are no problems to choose it by; name some with --validation");
  }
  if (!options.tuned() || !options.rates.empty()) {
    for (const char* const name : kTuneFields)
      if (request.settings.contains(name))
        throw UserError("{}: no rate is chosen here, since {} is given; leave one of them out", name,
                        options.rates.empty() ? "lr" : "rates");
  }
  if (!options.rates.empty()) terms.rates = rates_of(read_tuning(options.rates));
  terms.recipe = shared_recipe(pair, options, request.recipe.value_or(train::Recipe{}));
  return terms;
}

StudyFiles::StudyFiles(const fs::path& out, const StudyRequest& request) : path_(out) {
  std::error_code ignored;
  if (fs::exists(path_ / kManifest, ignored)) {
    lock_.emplace(path_);
    remove_abandoned(path_);
    resume(request);
  } else {
    begin(request);
  }
}

void StudyFiles::begin(const StudyRequest& request) {
  StudyTerms terms;
  try {
    terms = terms_of(request);
  } catch (const UserError& error) {
    throw UserError("{}: {}", path_.string(), error.what());
  }
  pair_ = std::move(terms.pair);
  options_ = std::move(terms.options);
  recipe_ = std::move(terms.recipe);
  quick_ = request.quick;
  rates_ = std::move(terms.rates);
  if (rates_) check_chosen_apart(options_.rates, contents_of(pair_));
  Json pair = json_of(pair_);
  pair["sha256"] = contents_of(pair_);
  pair["sha256"]["files"] = model_files_of(pair_);
  Json options = json_of(options_);
  options["quick"] = quick_;
  manifest_ = {{"kind", "study"},          {"version", kVersion},       {"pair", pair},
               {"options", options},       {"machine", this_machine()}, {"notes", Json::array()},
               {"parts", Json::object()},  {"evals", Json::object()},   {"bank", nullptr},
               {"concentration", nullptr}, {"runs", Json::array()},     {"probes", Json::array()},
               {"cost", nullptr},          {"tuning", nullptr}};
  make_result_directory(path_);
  lock_.emplace(path_);
  begun_ = true;
  if (request.recipe) write_file(path_ / kRecipe, train::recipe_text(*request.recipe));
  if (!options_.rates.empty()) take_rates();
  if (!pair_.family.empty() && pair_.validation.empty() && !request.settings.contains("lr") &&
      options_.rates.empty())
    add_note(
        fmt::format("the laboratory has no validation.jsonl: all arms have the learning rate {}, which was "
                    "tuned for none of "
                    "them",
                    *options_.lr));
  save();
}

// The study keeps its own copy of a record that was made elsewhere, and says where it differs.
void StudyFiles::take_rates() {
  const Json record = formats::read_json_object(options_.rates, kMostManifestBytes);
  write_file(place_of(kTuning), record.dump(2) + "\n");
  manifest_[kTuning.key] = kTuning.file;
  const Json& content = formats::value_or_null(record, "content");
  const Json now = tuned_content();
  for (const char* name : {"student", "teacher", "prompts"}) {
    if (formats::value_or_null(content, name) != now[name])
      add_note(fmt::format("the learning rates were chosen for another {}", name));
  }
  const Json& steps = formats::value_or_null(record, "steps");
  if (steps != options_.steps)
    add_note(
        fmt::format("the learning rates were chosen for {} steps, not {}", shown(steps), options_.steps));
  save();
}

const Rates& StudyFiles::rates() const {
  if (!rates_)
    rates_ =
        options_.lr ? Rates{.own = {}, .shared = *options_.lr} : rates_of(read_tuning(place_of(kTuning)));
  return *rates_;
}

double StudyFiles::rate_of(const PlannedRun& run) const {
  return run.shared ? rates().shared : rates().of(run.variant);
}

bool StudyFiles::is_own(const PlannedRun& run) const {
  return run.shared && rates().of(run.variant) == rates().shared;
}

Json StudyFiles::chosen_by() const {
  if (options_.rates.empty()) return Json::object();
  const Json record = formats::read_json_object(place_of(kTuning), kMostManifestBytes);
  const Json& content = formats::value_or_null(record, "content");
  const Json& problems = formats::value_or_null(content, "validation_problems");
  bool whole = problems.is_object() && !problems.empty() &&
               formats::value_or_null(record, "judged_problems") <= Json(problems.size());
  for (auto item = problems.begin(); whole && item != problems.end(); ++item)
    whole = item.key().size() == 64 && item.key().find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!whole)
    throw UserError("{}: does not say by which problems its rates were chosen; tune again", options_.rates);
  return problems;
}

Json StudyFiles::tuned_content() const {
  const Json& all = manifest_["pair"]["sha256"];
  Json content = Json::object();
  for (const char* name : {"student", "teacher", "prompts", "validation"}) content[name] = all[name];
  return content;
}

void StudyFiles::withdraw() {
  std::error_code ignored;
  const std::uintmax_t responses =
      fs::file_size(path_ / untrained_eval_path(kBase) / "responses.jsonl", ignored);
  const bool made = (!ignored && responses > 0) || fs::exists(path_ / kRuns, ignored) ||
                    fs::exists(path_ / kTune, ignored) || !manifest_["evals"].empty() ||
                    !manifest_["probes"].empty() || has(kBank) || has(kCost);
  if (!begun_ || made) return;
  lock_.reset();
  remove_whole(path_);
}

void StudyFiles::resume(const StudyRequest& request) {
  const fs::path file = path_ / kManifest;
  manifest_ = formats::read_json_object(file, kMostManifestBytes);
  formats::naming(file.string(), [&] { formats::refuse_zero_bytes(manifest_); });
  if (formats::value_or_null(manifest_, "kind") != "study" ||
      formats::value_or_null(manifest_, "version") != kVersion)
    throw UserError("{}: is no study of version {}", file.string(), kVersion);
  try {
    pair_ = pair_of(manifest_.at("pair"));
    Json options = manifest_.at("options");
    quick_ = options.at("quick").get<bool>();
    options.erase("quick");
    options_ = with_settings({}, options);
    for (const char* name : {"parts", "evals"})
      if (!manifest_.at(name).is_object()) throw UserError("{}: expected an object", name);
    for (const char* name : {"runs", "probes"})
      if (!manifest_.at(name).is_array()) throw UserError("{}: expected a list", name);
    for (const Json& run : manifest_["runs"]) {
      if (!run.at("path").is_string() || !run.at("complete").is_boolean())
        throw UserError("runs: expected path and complete");
    }
    for (const auto& item : manifest_["parts"].items()) {
      if (!item.value().at("complete").is_boolean() || !item.value().value("seconds", Json(0)).is_number())
        throw UserError("parts: expected complete, and seconds as a number");
    }
  } catch (const std::exception& error) {  // a field is missing, or of another type
    throw UserError("{}: cannot be resumed ({}); mend it, or name another directory", file.string(),
                    error.what());
  }
  std::error_code ignored;
  const bool has_recipe = fs::exists(path_ / kRecipe, ignored);
  const train::Recipe given = has_recipe ? train::read_recipe((path_ / kRecipe).string()) : train::Recipe{};
  recipe_ = shared_recipe(pair_, options_, given);
  if (request.recipe) {
    if (!has_recipe)
      throw UserError("{}: the study was begun without a recipe; leave it out, or name another directory",
                      path_.string());
    const std::vector<std::string> fields = train::differences(given, *request.recipe);
    if (!fields.empty())
      throw UserError(
          "{}: the study was begun with another {} of the recipe; say the same, or name another directory",
          path_.string(), fields.front());
  }
  if (request.quick && !quick_) refuse(path_, "quick", false, true);
  Json settings = request.settings;
  if (settings.contains("rates") && settings["rates"].is_string())
    settings["rates"] = absolute_path(settings["rates"].get<std::string>());
  const Json asked = json_of(with_settings(options_, settings));
  Json said = Json::object();
  for (const auto& item : request.settings.items()) said[item.key()] = asked[item.key()];
  check_same(path_, json_of(options_), said, "");
  if (request.pair) check_same(path_, manifest_["pair"], json_of(*request.pair), "pair.");
  const Json& contents = formats::value_or_null(manifest_["pair"], "sha256");
  check_same(path_, contents, contents_of(pair_), "content of pair.");
  // A study that was begun before these counted says nothing of them.
  const Json& files = formats::value_or_null(contents, "files");
  if (!files.is_null()) check_same(path_, files, model_files_of(pair_), "content of pair.");
  if (!options_.rates.empty() && !has(kTuning)) take_rates();  // it was removed
}

void StudyFiles::save() const {
  write_file(path_ / kManifest, manifest_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

bool StudyFiles::complete(const std::string& part) const {
  const Json& parts = manifest_["parts"];
  return parts.contains(part) && parts[part]["complete"].get<bool>();
}

void StudyFiles::finish(const std::string& part, bool complete, double seconds, const std::string& note) {
  Json& entry = manifest_["parts"][part];
  const double before = entry.is_object() ? entry.value("seconds", 0.0) : 0.0;
  entry = {{"complete", complete}, {"seconds", before + seconds}};
  if (!note.empty()) entry["note"] = note;
  save();
}

std::string StudyFiles::untrained_eval_path(const std::string& whose) {
  return fmt::format("{}/eval", whose);
}

std::string StudyFiles::run_path(const PlannedRun& run) {
  return fmt::format("{}/{}", kRuns, run.name());
}

std::string StudyFiles::eval_path(const PlannedRun& run, std::int64_t step) {
  return fmt::format("{}/eval/step_{}", run_path(run), step);
}

std::string StudyFiles::checkpoint_path(const PlannedRun& run, std::int64_t step) {
  return fmt::format("{}/checkpoints/step_{}", run_path(run), step);
}

std::string StudyFiles::trial_path(const Trial& trial) {
  return fmt::format("{}/{}", kTune, trial.name());
}

std::string StudyFiles::probe_path(const std::string& name) {
  return fmt::format("probes/{}", name);
}

bool StudyFiles::complete(const PlannedRun& run) const {
  const Json wanted = {{"name", run.variant.name}, {"seed", run.seed}, {"shared", run.shared}};
  for (const Json& entry : manifest_["runs"]) {
    if (!is_same_entry(wanted, entry) || !entry["complete"].get<bool>()) continue;
    // Made at another rate than the record has now: made again.
    const bool rates_known = !options_.tuned() || has(kTuning);
    if (rates_known && formats::value_or_null(entry, "lr") != Json(rate_of(run))) return false;
    const auto path = entry["path"].get<std::string>();
    std::error_code ignored;  // a run that was removed is made again
    return fs::exists(path_ / path / "metrics.jsonl", ignored) &&
           (pair_.suites.empty() || evaluated(fmt::format("{}/eval/step_{}", path, options_.steps)));
  }
  return false;
}

void StudyFiles::record(const PlannedRun& run, bool complete) {
  const routing::ObjectiveOptions objective = objective_of(run.variant, options_);
  Json settings = run.variant.settings;
  settings.erase("arm");
  PlannedRun place = run;
  if (is_own(run)) place.shared = false;
  const Json entry = {{"name", run.variant.name},
                      {"arm", objective.arm},
                      {"k", support_json(objective.k)},
                      {"m", objective.m},
                      {"pairs", objective.pairs == routing::Pairs::kExact ? "exact" : "sample"},
                      {"settings", settings},
                      {"lr", rate_of(run)},
                      {"shared", run.shared},
                      {"seed", run.seed},
                      {"path", run_path(place)},
                      {"eval", pair_.suites.empty() ? Json() : Json(eval_path(place, options_.steps))},
                      {"complete", complete}};
  put_entry(entry, manifest_["runs"]);
  save();
}

void StudyFiles::add_note(const std::string& note) {
  Json& notes = manifest_["notes"];
  if (!notes.is_array()) notes = Json::array();
  if (std::find(notes.begin(), notes.end(), Json(note)) != notes.end()) return;
  notes.push_back(note);
  save();
}

void StudyFiles::note_machine() {
  const Json& before = formats::value_or_null(manifest_, "machine");
  const Json now = this_machine();
  if (before == now) return;
  add_note(fmt::format(
      "begun on {}, resumed on {}: these round differently, so that the last bits are not those of "
      "one machine alone",
      machine_text(before), machine_text(now)));
}

// Where the checker can read the responses, their labels belong to it.
bool StudyFiles::evaluated(const std::string& directory) const {
  std::error_code ignored;
  return fs::exists(path_ / directory / "summary.json", ignored) &&
         (pair_.family.empty() || fs::exists(path_ / directory / "labels.jsonl", ignored));
}

bool StudyFiles::has_eval(const std::string& whose) const {
  const Json& path = formats::value_or_null(manifest_["evals"], whose.c_str());
  return path.is_string() && evaluated(path.get<std::string>());
}

bool StudyFiles::has_probe(const std::string& name) const {
  std::error_code ignored;
  return fs::exists(path_ / probe_path(name) / "probe.json", ignored);
}

bool StudyFiles::has(const Piece& piece) const {
  std::error_code ignored;
  const Json& path = formats::value_or_null(manifest_, piece.key);
  return path.is_string() && fs::exists(path_ / path.get<std::string>(), ignored);
}

void StudyFiles::put(const Piece& piece) {
  manifest_[piece.key] = piece.file;
  save();
}

void StudyFiles::put_eval(const std::string& whose) {
  manifest_["evals"][whose] = untrained_eval_path(whose);
  save();
}

void StudyFiles::put_probe(const std::string& name, const std::string& at) {
  const Json entry = {{"name", name}, {"path", probe_path(name)}, {"at", at}};
  put_entry(entry, manifest_["probes"]);
  save();
}

}  // namespace routeopd::study
