// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "routeopd/formats/json_file.h"
#include "routeopd/report/arms.h"

namespace routeopd::study {
namespace {

constexpr std::int64_t kMostRecordBytes = 1 << 24;
constexpr std::int64_t kRecordVersion = 1;
constexpr std::size_t kMostTrials = 40'000;  // of all arms: a record is held to them pair by pair

// Tuned unless the user says otherwise; and whose rate each takes where it is not.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTuned = {{
    {"sampled_rkl", ""},
    {"full_rkl", "sampled_rkl"},
    {"fixed_mid", "routeopd"},
    {"routeopd", "fixed_mid"},
    {"union_rkl", "full_rkl"},
}};

double lower_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

// One arm's trials by rate, each with its averages in the order of the seeds.
using Curve = std::map<double, std::vector<double>>;

Curve curve_of(const std::string& arm, const StudyOptions& options, const std::vector<Trial>& trials) {
  Curve curve;
  for (const std::uint64_t seed : options.tune_seeds) {
    for (const Trial& trial : trials)
      if (trial.arm == arm && trial.seed == seed) curve[trial.lr].push_back(trial.average);
  }
  return curve;
}

// The smallest rate whose mean lies within kRateTie of the highest. The slack is for means that differ by
// kRateTie itself but for their rounding.
double winner(const Curve& curve) {
  double highest = -1;
  for (const auto& [lr, values] : curve) highest = std::max(highest, mean_over_seeds(values));
  for (const auto& [lr, values] : curve)
    if (mean_over_seeds(values) >= highest - kRateTie - 1e-12) return lr;
  return curve.begin()->first;
}

// Two significant digits: names of rates stay short.
double rounded_rate(double lr) {
  const double unit = std::pow(10.0, std::floor(std::log10(lr)) - 1);
  return std::stod(fmt::format("{:.1e}", std::round(lr / unit) * unit));
}

// The rate beyond the end that the winner lies at, as far from it as its neighbour is; none where the winner
// lies inside, the grid was extended often enough, or there is no such rate: the spacing is finer than the
// rounding, or the rate is none that a study takes.
std::optional<double> rate_beyond(const Curve& curve, const std::vector<double>& grid) {
  const auto extended = static_cast<std::int64_t>(curve.size()) - std::ssize(grid);
  if (curve.size() < 2 || extended >= kMostExtensions) return std::nullopt;
  const double best = winner(curve), lowest = curve.begin()->first, highest = curve.rbegin()->first;
  if (best != lowest && best != highest) return std::nullopt;
  const double neighbour =
      best == lowest ? std::next(curve.begin())->first : std::next(curve.rbegin())->first;
  const double beyond = rounded_rate(best * best / neighbour);
  if (beyond < kLearningRates.low || beyond > kLearningRates.high) return std::nullopt;
  return beyond < lowest || beyond > highest ? std::optional(beyond) : std::nullopt;
}

// The trial of these that is not done.
std::optional<Trial> missing_trial(const std::string& arm, const std::vector<double>& rates,
                                   const StudyOptions& options, const std::vector<Trial>& done) {
  for (const double lr : rates) {
    for (const std::uint64_t seed : options.tune_seeds) {
      const bool there = std::any_of(done.begin(), done.end(), [&](const Trial& trial) {
        return trial.arm == arm && trial.lr == lr && trial.seed == seed;
      });
      if (!there) return Trial{.arm = arm, .lr = lr, .seed = seed};
    }
  }
  return std::nullopt;
}

Json nullable(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> optional_number(const Json& object, const char* name) {
  const Json& value = formats::value_or_null(object, name);
  if (value.is_null()) return std::nullopt;
  return number_in(value, {});
}

double rate_in(const Json& value) {
  return number_in(value, kLearningRates);
}

// A number with a fraction, or past the range, would become another seed.
std::uint64_t seed_in(const Json& value) {
  if (!value.is_number_unsigned())
    throw UserError("expected seeds as whole numbers from 0, got {}", shown(value));
  return value.get<std::uint64_t>();
}

double share_in(const Json& value) {
  return number_in(value, {.low = 0, .high = 1});
}

// What was asked for, as the record keeps it.
Json asked_json(const StudyOptions& options) {
  return {{"lrs", options.lrs},
          {"seeds", options.tune_seeds},
          {"samples", options.tune_samples},
          {"problems", options.tune_problems},
          {"steps", options.trial_steps()}};
}

constexpr const char* kAnother = "name another record of tuning, or tune again";

template <class Read>
auto read_record(const std::filesystem::path& path, const Read& read, const char* advice = kAnother) {
  Json record;
  try {
    record = formats::read_json_object(path, kMostRecordBytes);
  } catch (const UserError& error) {
    throw UserError("{} ({})", error.what(), advice);
  }
  if (formats::value_or_null(record, "kind") != "tuning" ||
      formats::value_or_null(record, "version") != kRecordVersion)
    throw UserError("{}: is no record of tuning of version {}", path.string(), kRecordVersion);
  try {
    return read(record);
  } catch (const std::exception& error) {
    throw UserError("{}: is a damaged record of tuning ({}); {}", path.string(), error.what(), advice);
  }
}

}  // namespace

std::string Trial::name() const {
  return fmt::format("{}-lr{}-seed{}", arm, lr, seed);
}

std::string rate_source(const Variant& variant) {
  for (const auto& [arm, source] : kTuned)
    if (variant.name == arm) return std::string(source);
  if (variant.family == Family::kSupport || variant.family == Family::kPairs) return "routeopd";
  const report::Arm* const arm = report::find_arm(variant.name);
  if (arm == nullptr) return "";
  if (arm->component == report::Component::kBudget || arm->crossing.preset == "routeopd") return "routeopd";
  if (arm->main) return "union_rkl";  // the forward KLs
  return kAblationReference;
}

std::vector<std::string> tuned_arms(const StudyOptions& options) {
  if (!options.tune_arms.empty()) return options.tune_arms;
  std::vector<std::string> arms;
  for (const auto& [name, source] : kTuned) {
    const std::string arm(name);
    const std::vector<Variant> kept = variants_of(all_families(), {}, options);
    if (std::any_of(kept.begin(), kept.end(), [&](const Variant& variant) {
          return variant.name == arm ||
                 (std::none_of(kTuned.begin(), kTuned.end(),
                               [&](const auto& tuned) { return tuned.first == variant.name; }) &&
                  rate_source(variant) == arm);
        }))
      arms.push_back(arm);
  }
  return arms;
}

std::optional<Trial> next_trial(const StudyOptions& options, const std::vector<Trial>& done) {
  for (const std::string& arm : tuned_arms(options)) {
    std::vector<double> rates = options.lrs;
    while (true) {
      if (auto trial = missing_trial(arm, rates, options, done)) return trial;
      // Of the rates that are whole, whatever else the record may have.
      Curve curve = curve_of(arm, options, done);
      std::erase_if(curve, [&](const auto& point) {
        return std::find(rates.begin(), rates.end(), point.first) == rates.end();
      });
      const std::optional<double> beyond = rate_beyond(curve, options.lrs);
      if (!beyond) break;
      rates.push_back(*beyond);
    }
  }
  return std::nullopt;
}

std::int64_t fewest_trials(const StudyOptions& options, const std::vector<Trial>& done) {
  const std::int64_t grid =
      std::ssize(tuned_arms(options)) * std::ssize(options.lrs) * std::ssize(options.tune_seeds);
  std::int64_t beyond = 0;
  for (const Trial& trial : done)
    if (std::find(options.lrs.begin(), options.lrs.end(), trial.lr) == options.lrs.end()) ++beyond;
  return grid + beyond;
}

Tuning chosen_rates(const StudyOptions& options, const std::vector<Trial>& trials) {
  Tuning tuning{
      .rates = {}, .shared_lr = {}, .samples = options.tune_samples, .problems = options.tune_problems};
  std::vector<double> choices;
  for (const std::string& arm : tuned_arms(options)) {
    const Curve curve = curve_of(arm, options, trials);
    ROUTEOPD_INVARIANT(!curve.empty());
    choices.push_back(winner(curve));
    for (const auto& [lr, values] : curve)
      tuning.rates.push_back({.arm = arm,
                              .lr = lr,
                              .per_seed = values,
                              .completion = {},
                              .overshoot = {},
                              .rms = {},
                              .chosen = lr == choices.back()});
  }
  if (!choices.empty()) tuning.shared_lr = lower_median(choices);
  return tuning;
}

std::optional<double> Rates::chosen_for(const Variant& variant) const {
  std::string name = variant.name;
  Variant at = variant;
  // A chain of sources is shorter than the list of tuned arms, or runs in a circle.
  for (std::size_t hop = 0; hop <= kTuned.size(); ++hop) {
    if (const auto found = own.find(name); found != own.end()) return found->second;
    name = rate_source(at);
    at = {.name = name, .family = Family::kMain, .settings = {}};
  }
  return std::nullopt;
}

Rates rates_of(const Tuning& tuning) {
  Rates rates;
  for (const TunedRate& rate : tuning.rates)
    if (rate.chosen) rates.own[rate.arm] = rate.lr;
  rates.shared = tuning.shared_lr.value();
  return rates;
}

Json tuning_json(const StudyOptions& options, const std::vector<Trial>& trials, const Json& content,
                 const std::optional<Tuning>& tuning) {
  Json record = {{"kind", "tuning"},    {"version", kRecordVersion}, {"complete", tuning.has_value()},
                 {"content", content},  {"trials", Json::array()},   {"arms", nullptr},
                 {"shared_lr", nullptr}};
  record.update(asked_json(options));
  for (const Trial& trial : trials)
    record["trials"].push_back(
        {{"arm", trial.arm}, {"lr", trial.lr}, {"seed", trial.seed}, {"avg", trial.average}});
  if (!tuning) return record;
  Json arms = Json::array();
  for (const TunedRate& rate : tuning->rates) {
    if (arms.empty() || arms.back()["arm"] != rate.arm)
      arms.push_back(
          {{"arm", rate.arm}, {"lr", nullptr}, {"mean", nullptr}, {"extended", 0}, {"rates", Json::array()}});
    Json& arm = arms.back();
    const double mean = mean_over_seeds(rate.per_seed);
    if (rate.chosen) {
      arm["lr"] = rate.lr;
      arm["mean"] = mean;
    }
    if (std::find(options.lrs.begin(), options.lrs.end(), rate.lr) == options.lrs.end())
      arm["extended"] = arm["extended"].get<int>() + 1;
    arm["rates"].push_back({{"lr", rate.lr},
                            {"mean", mean},
                            {"per_seed", rate.per_seed},
                            {"rms", nullable(rate.rms)},
                            {"completion", nullable(rate.completion)},
                            {"overshoot", nullable(rate.overshoot)}});
  }
  record["arms"] = std::move(arms);
  record["judged_problems"] = tuning->problems;
  record["shared_lr"] = nullable(tuning->shared_lr);
  return record;
}

namespace {

std::vector<Trial> trials_in(const Json& record) {
  std::vector<Trial> trials;
  const Json& all = record.at("trials");
  if (!all.is_array() || all.size() > kMostTrials) throw UserError("expected at most {} trials", kMostTrials);
  for (const Json& trial : all)
    trials.push_back({.arm = trial.at("arm").get<std::string>(),
                      .lr = rate_in(trial.at("lr")),
                      .seed = seed_in(trial.at("seed")),
                      .average = share_in(trial.at("avg"))});
  return trials;
}

}  // namespace

std::vector<Trial> read_trials(const std::filesystem::path& path, const StudyOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  return read_record(
      path,
      [&](const Json& record) {
        const Json asked = asked_json(options);
        for (const auto& item : asked.items())
          if (record.at(item.key()) != item.value())
            throw UserError("it was made with another {}", item.key());
        return trials_in(record);
      },
      "remove it, and the same command tunes again");
}

Tuning tuning_of(const Json& record) {
  if (record.at("complete") != true) throw UserError("its trials are not complete");
  number_in(record.at("steps"), {.low = 1, .high = 1e6}, true);
  StudyOptions asked;
  asked.lrs = record.at("lrs").get<std::vector<double>>();
  const Json& seeds = record.at("seeds");
  if (!seeds.is_array()) throw UserError("expected seeds as a list");
  asked.tune_seeds.clear();
  for (const Json& seed : seeds) asked.tune_seeds.push_back(seed_in(seed));
  asked.tune_samples =
      static_cast<std::int32_t>(number_in(record.at("samples"), {.low = 1, .high = 1 << 20}, true));
  const Json& arms = record.at("arms");
  if (!arms.is_array() || arms.empty()) throw UserError("no arm is in it");
  for (const Json& arm : arms) {
    const auto name = arm.at("arm").get<std::string>();
    if (report::find_arm(name) == nullptr) throw UserError("an arm that is none: {}", name.substr(0, 100));
    if (std::count(asked.tune_arms.begin(), asked.tune_arms.end(), name) > 0)
      throw UserError("{} is in it twice", name);
    asked.tune_arms.push_back(name);
  }
  if (asked.lrs.empty() || asked.tune_seeds.empty()) throw UserError("a rate without a seed");
  if (asked.lrs.size() * asked.tune_seeds.size() > kMostTrialsOfAnArm)
    throw UserError("more than {} trials of an arm", kMostTrialsOfAnArm);
  // What it says must follow from its trials.
  const std::vector<Trial> trials = trials_in(record);
  if (next_trial(asked, trials)) throw UserError("a trial of its grid is missing");
  Tuning tuning = chosen_rates(asked, trials);
  tuning.problems =
      static_cast<std::int64_t>(number_in(record.at("judged_problems"), {.low = 1, .high = 1 << 24}, true));
  if (rate_in(record.at("shared_lr")) != tuning.shared_lr)
    throw UserError("its shared rate is not the lower median of its choices");
  std::size_t next = 0;
  for (const Json& arm : arms) {
    const auto name = arm.at("arm").get<std::string>();
    const double chosen = rate_in(arm.at("lr"));
    for (const Json& point : arm.at("rates")) {
      if (next == tuning.rates.size() || tuning.rates[next].arm != name)
        throw UserError("the curve of {} is not that of its trials", name);
      TunedRate& rate = tuning.rates[next++];
      if (rate.lr != rate_in(point.at("lr")) ||
          rate.per_seed != point.at("per_seed").get<std::vector<double>>())
        throw UserError("the curve of {} is not that of its trials", name);
      if (rate.chosen != (rate.lr == chosen)) throw UserError("the rate of {} is not its best one", name);
      rate.completion = optional_number(point, "completion");
      rate.overshoot = optional_number(point, "overshoot");
      rate.rms = optional_number(point, "rms");
    }
  }
  if (next != tuning.rates.size()) throw UserError("a rate that was tried is on no curve");
  return tuning;
}

Tuning read_tuning(const std::filesystem::path& path) {
  return read_record(path, [](const Json& record) { return tuning_of(record); });
}

}  // namespace routeopd::study
