// A whole study directory of made-up numbers, small and complete: every file that a study may hold, each
// number a plain function of its address, so that a test can compute what a table should say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"
#include "routeopd/grade/eval_files.h"
#include "routeopd/grade/suite_summary.h"
#include "testing_files.h"

namespace routeopd::study {

class SyntheticStudy {
 public:
  static constexpr int kProblems = 12, kSamples = 4, kSteps = 20, kStates = 16;
  static constexpr const char* kSuite = "heldout";

  struct Variant {
    std::string name, arm;
    Json k = 16;
    int m = 2;
    int level = 60;  // percent of its answers that are right, about
  };

  static std::vector<Variant> variants() {
    return {{"sampled_rkl", "sampled_rkl", 16, 2, 50},
            {"full_rkl", "full_rkl", 16, 2, 65},
            {"full_fkl", "full_fkl", 16, 2, 55},
            {"fixed_mid", "fixed_mid", 16, 2, 60},
            {"routeopd", "routeopd", 16, 2, 90},
            {"union_rkl", "union_rkl", 16, 2, 75},
            {"union_fkl", "union_fkl", 16, 2, 58},
            {"exact", "routeopd", 16, 2, 88},
            {"uniform_deficit", "uniform_deficit", 16, 2, 59},
            {"student_proportional", "student_proportional", 16, 2, 40},
            {"random_background", "random_background", 16, 2, 35},
            {"rank_matched", "rank_matched", 16, 2, 45},
            {"rank_matched_neutral", "rank_matched_neutral", 16, 2, 37},
            {"source_only", "source_only", 16, 2, 52},
            {"destination_only", "destination_only", 16, 2, 54},
            {"source_only-one", "source_only", 16, 2, 51},
            {"destination_only-one", "destination_only", 16, 2, 53},
            {"no_mass", "no_mass", 16, 2, 61},
            {"independent_clipping", "independent_clipping", 16, 2, 62},
            {"fixed_low", "fixed_low", 16, 2, 48},
            {"fixed_high", "fixed_high", 16, 2, 63},
            {"reversed", "reversed", 16, 2, 47},
            {"routeopd-k8", "routeopd", 8, 2, 66},
            {"routeopd-k64", "routeopd", 64, 2, 71},
            {"routeopd-kfull", "routeopd", "full", 2, 72},
            {"routeopd-m1", "routeopd", 16, 1, 57},
            {"routeopd-m4", "routeopd", 16, 4, 64},
            {"routeopd-m8", "routeopd", 16, 8, 56}};
  }

  static const std::vector<int>& seeds() {
    static const std::vector<int> all = {42, 43};
    return all;
  }

  static std::uint64_t mixed(std::uint64_t x) {  // splitmix64
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  }

  // Whether a response is right. Problems differ in how hard they are; the same one is as hard for everybody.
  static bool right(const std::string& who, int seed, int step, int problem, int sample) {
    int level = who == "teacher" ? 98 : 30;
    for (const Variant& variant : variants())
      if (variant.name == who) level = 30 + (variant.level - 30) * step / kSteps;
    const int hardness = problem % 3 * 8 - 8;
    const auto address = static_cast<std::uint64_t>(((seed * 100 + step) * 100 + problem) * 100 + sample);
    std::uint64_t h = mixed(address);
    for (const char c : who) h = mixed(h ^ static_cast<unsigned char>(c));
    return static_cast<int>(h % 100) < level - hardness;
  }

  static std::string label(const std::string& who, int seed, int step, int problem, int sample) {
    if (right(who, seed, step, problem, sample)) return "correct";
    static const std::vector<std::string> kinds = {"reasoning", "arithmetic", "premature_stop", "format"};
    return kinds[static_cast<std::size_t>(problem * 5 + sample) % kinds.size()];
  }

  static int tokens(const std::string& who, int problem, int sample) {
    return 10 + static_cast<int>(who.size()) + 3 * problem + sample;
  }

  static std::string problem_name(int problem) { return fmt::format("p{}", problem); }

  // `few`: one seed of routeopd and fixed_mid in place of everything.
  explicit SyntheticStudy(const std::filesystem::path& directory, bool few = false) : directory_(directory) {
    manifest = {
        {"kind", "study"},
        {"version", 1},
        {"pair", {{"family", "sums"}, {"student", "lab/base"}, {"teacher", "lab/teacher"}}},
        {"options", {{"steps", kSteps}, {"k", 16}, {"m", 2}, {"samples", kSamples}, {"seeds", seeds()}}},
        {"machine", {{"cpu", "a processor"}, {"threads", 2}}},
        {"parts", Json::object()},
        {"evals", {{"base", "base/eval"}, {"teacher", "teacher/eval"}}},
        {"bank", nullptr},
        {"concentration", "concentration.jsonl"},
        {"runs", Json::array()},
        {"probes", Json::array()},
        {"cost", "cost.json"}};
    for (const char* part : {"main", "ablations", "sweeps", "dynamics", "mechanism", "cost", "behaviour"})
      manifest["parts"][part] = {{"complete", true}, {"seconds", 1.5}};
    write_eval("base/eval", "base", 0, 0);
    write_eval("teacher/eval", "teacher", 0, 0);
    for (const Variant& variant : variants()) {
      for (const int seed : seeds()) {
        const bool wanted =
            seed == seeds().front() && (variant.name == "routeopd" || variant.name == "fixed_mid");
        if (!few || wanted) write_run(variant, seed);
      }
    }
    write_concentration();
    write_probes();
    write_cost();
    save();
  }

  void save() const { write("study.json", manifest.dump(1)); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }

  // Where a problem's concentration lies: three problems in each of the four bins, the bins' ends among them.
  static double concentration(int problem) {
    if (problem == kProblems - 1) return 1;
    return 0.25 * (problem % 4) + (problem < 4 ? 0 : 0.1);
  }

  // Of a probe's row; `name`'s own place among the variants makes rows differ.
  static double fidelity(const std::string& name, const std::string& intervention) {
    return 0.9 - 0.01 * place(name) - 0.005 * static_cast<double>(intervention.size());
  }
  static double leakage(const std::string& name, const std::string& intervention) {
    return 0.1 + 0.01 * place(name) + 0.004 * static_cast<double>(intervention.size());
  }
  // A state's own value around the mean.
  static double state_value(double mean, const std::string& name, int state) {
    return mean + 0.004 * ((state * 7 + static_cast<int>(place(name))) % 5 - 2);
  }
  static double place(const std::string& name) {
    const std::vector<Variant> all = variants();
    return static_cast<double>(
        std::find_if(all.begin(), all.end(), [&](const Variant& v) { return v.name == name; }) - all.begin());
  }

  Json manifest;

 private:
  void write_eval(const std::string& path, const std::string& who, int seed, int step) {
    std::vector<grade::EvalResponse> responses;
    std::string lines, labels;
    for (int p = 0; p < kProblems; ++p) {
      for (int s = 0; s < kSamples; ++s) {
        const std::string kind = label(who, seed, step, p, s);
        grade::EvalResponse response{.suite = kSuite,
                                     .problem = problem_name(p),
                                     .sample = s,
                                     .response = "The final answer is 1.",
                                     .extracted = kind == "format"    ? ""
                                                  : kind == "correct" ? "1"
                                                                      : "2",
                                     .correct = kind == "correct",
                                     .format_ok = kind != "format",
                                     .clipped = (p + s) % 7 == 0,
                                     .tokens = tokens(who, p, s)};
        lines += grade::line_of(response);
        labels += Json{{"suite", kSuite},      {"problem", problem_name(p)}, {"sample", s},
                       {"label", kind},        {"pass1", nullptr},           {"pass2", nullptr},
                       {"adjudicated", false}, {"clipped", response.clipped}}
                      .dump() +
                  "\n";
        responses.push_back(std::move(response));
      }
    }
    Json suite = grade::suite_summary(responses, {.draws = 50});
    suite["file"] = "heldout.jsonl";
    suite["sha256"] = std::string(64, 'a');
    const Json summary = {{"model", who},
                          {"decoding", {{"temperature", 0.7}}},
                          {"seed", 42},
                          {"template", "raw"},
                          {"extractor", "final answer"},
                          {"suites", {{kSuite, suite}}},
                          {"average", suite},
                          {"avg", suite["avg"]}};
    write(path + "/summary.json", summary.dump(1));
    write(path + "/responses.jsonl", lines);
    write(path + "/labels.jsonl", labels);
  }

  void write_run(const Variant& variant, int seed) {
    const std::string path = fmt::format("runs/{}-seed{}", variant.name, seed);
    const std::string k = variant.k.is_string() ? "\"full\"" : variant.k.dump();
    write(path + "/recipe.toml",
          fmt::format("seed = {}\n[objective]\narm = \"{}\"\nk = {}\nm = {}\n[train]\nsteps = {}\n", seed,
                      variant.arm, k, variant.m, kSteps));
    std::string metrics, probe;
    for (int step = 1; step <= kSteps; ++step)
      metrics += metrics_line(variant.name, seed, step).dump() + "\n";
    for (int step = 0; step <= kSteps; step += 10)
      probe += probe_line(variant.name, seed, step).dump() + "\n";
    write(path + "/metrics.jsonl", metrics);
    write(path + "/probe.jsonl", probe);
    for (int step = 10; step <= kSteps; step += 10)
      write_eval(fmt::format("{}/eval/step_{}", path, step), variant.name, seed, step);
    manifest["runs"].push_back({{"name", variant.name},
                                {"arm", variant.arm},
                                {"k", variant.k},
                                {"m", variant.m},
                                {"pairs", variant.name == "exact" ? "exact" : "sample"},
                                {"settings", Json::object()},
                                {"seed", seed},
                                {"path", path},
                                {"eval", fmt::format("{}/eval/step_{}", path, kSteps)},
                                {"complete", true}});
  }

 public:
  static Json metrics_line(const std::string& name, int seed, int step) {
    const double own = place(name) + seed - 42;
    return {{"step", step},
            {"tokens", 1000},
            {"loss", 0.1},
            {"lr", 5e-5},
            {"grad_norm", 0.3 + 0.01 * own},
            {"mass", 0.1},
            {"routed_share", 0.8 + 0.0012 * own},
            {"student_mass", 0.97},
            {"teacher_mass", 0.96},
            {"entropy", 1.4 - 0.01 * own - 0.001 * step},
            {"policy_entropy", 1.5 - 0.01 * own - 0.001 * step},
            {"teacher_entropy", 1.25},
            {"response_tokens", 30 + own},
            {"clip_ratio", 0.02 + 0.001 * own},
            {"validity", {{"valid", 1000}}},
            {"time", {{"total", 0.5}}}};
  }

  static Json probe_line(const std::string& name, int seed, int step) {
    const double own = place(name) + seed - 42;
    const double fidelity = 0.5 + 0.01 * step + 0.001 * own;
    return {{"step", step},
            {"mass", 0.12 - 0.001 * step - 0.0001 * own},
            {"fidelity", {{"mean", fidelity}, {"p10", fidelity - 0.2}, {"median", fidelity + 0.01}}},
            {"leakage", {{"mean", 1 - fidelity}, {"p10", 0.1}, {"median", 0.99 - fidelity}}},
            {"since_start", step == 0 ? Json() : Json{{"deficit_reduction", 0.01}}},
            {"rms", 0.04}};
  }

 private:
  void write_concentration() const {
    std::string lines;
    for (int p = 0; p < kProblems; ++p)
      lines += Json{{"suite", kSuite}, {"problem", problem_name(p)},        {"states", 20 + p},
                    {"mass", 0.1},     {"concentration", concentration(p)}, {"budget", 0.2 + 0.01 * p}}
                   .dump() +
               "\n";
    write("concentration.jsonl", lines);
  }

 public:
  static Json probe_row(const std::string& name, const std::string& intervention) {
    const double f = fidelity(name, intervention), l = leakage(name, intervention);
    Json strata = {{"concentration", Json::array()}, {"mismatch", Json::array()}, {"entropy", Json::array()}};
    for (int q = 0; q < 4; ++q) {
      strata["concentration"].push_back({{"low", 0.25 * q},
                                         {"high", 0.25 * (q + 1)},
                                         {"states", 4},
                                         {"budget", 0.2 + 0.05 * q},
                                         {"fidelity", f - 0.01 * q},
                                         {"leakage", l},
                                         {"deficit_reduction", 0.01},
                                         {"completion", 0.8}});
      strata["mismatch"].push_back({{"quartile", q + 1},
                                    {"states", 4},
                                    {"mass", 0.05 * (q + 1)},
                                    {"fidelity", f + 0.02 * q},
                                    {"leakage", l - 0.01 * q},
                                    {"deficit_reduction", 0.004 * (q + 1)},
                                    {"completion", 0.7 + 0.02 * q}});
      strata["entropy"].push_back({{"quartile", q + 1},
                                   {"states", 4},
                                   {"entropy", 0.4 * (q + 1)},
                                   {"fidelity", f - 0.02 * q},
                                   {"leakage", l + 0.01 * q},
                                   {"deficit_reduction", 0.012 - 0.002 * q},
                                   {"completion", 0.8}});
    }
    return {{"name", name},
            {"intervention", intervention},
            {"scale", 1},
            {"rms", 0.043},
            {"fidelity",
             {{"mean", f},
              {"p10", f - 0.3},
              {"median", f + 0.02},
              {"low", f - 0.01},
              {"high", f + 0.01},
              {"states", kStates}}},
            {"leakage",
             {{"mean", l},
              {"p10", l - 0.05},
              {"median", l - 0.01},
              {"low", l - 0.01},
              {"high", l + 0.01},
              {"states", kStates}}},
            {"target_mae", 0.05 + 0.001 * place(name)},
            {"completion", 0.85 - 0.002 * place(name)},
            {"overshoot", 0.15},
            {"deficit_reduction", 0.012},
            {"strata", strata}};
  }

  static Json probe_arm(const Variant& variant) {
    const bool targets = !variant.arm.ends_with("kl");
    return {{"name", variant.name},
            {"arm", variant.arm},
            {"k", variant.k},
            {"m", variant.m},
            {"pairs", "sample"},
            {"budget", 0.25},
            {"coverage", 0.5 + 0.05 * variant.m},
            {"loss_variance", 0.2 / variant.m},
            {"relative_loss_variance", 0.4 / variant.m},
            {"student_mass", 0.97},
            {"teacher_mass", 0.96},
            {"cycle_violations", !targets                                 ? Json()
                                 : variant.name == "independent_clipping" ? Json(0.27)
                                                                          : Json(0.0)}};
  }

 private:
  void write_probe(const std::string& name, const std::string& at,
                   const std::vector<std::pair<std::string, std::string>>& rows) {
    const std::string path = "probes/" + name;
    Json probe = {
        {"kind", "probe"},
        {"version", 1},
        {"rms", 0.043},
        {"statistics", {{"mass", 0.1}, {"student_mass", 0.97}, {"teacher_mass", 0.96}, {"states", kStates}}},
        {"arms", Json::array()},
        {"rows", Json::array()}};
    std::string states, routes;
    for (const auto& [variant, intervention] : rows) {
      probe["rows"].push_back(probe_row(variant, intervention));
      for (const Variant& each : variants())
        if (each.name == variant) probe["arms"].push_back(probe_arm(each));
    }
    for (int n = 0; n < kStates; ++n) {
      Json values = Json::array();
      for (const auto& [variant, intervention] : rows)
        values.push_back(
            {{"name", variant},
             {"intervention", intervention},
             {"fidelity", state_value(fidelity(variant, intervention), variant, n)},
             {"leakage", n == 3 ? Json() : Json(state_value(leakage(variant, intervention), variant, n))},
             {"deficit_reduction", 0.01}});
      states += Json{{"state", n},
                     {"sequence", n * 10 / kStates},
                     {"mass", 0.1},
                     {"teacher_entropy", 1.0},
                     {"values", values}}
                    .dump() +
                "\n";
      routes += Json{{"state", n},
                     {"prompt", n / 4},
                     {"position", 5 + n},
                     {"name", "routeopd"},
                     {"intervention", "fresh_adamw"},
                     {"source", 100 + n},
                     {"destination", 200 + n},
                     {"source_text", " a"},
                     {"destination_text", " b"},
                     {"p_student_source", 0.2},
                     {"p_teacher_source", 0.1},
                     {"p_student_destination", 0.05},
                     {"p_teacher_destination", 0.15},
                     {"target", 0.25},
                     {"achieved", 0.25 * n / (kStates - 1)}}
                    .dump() +
                "\n";
    }
    write(path + "/probe.json", probe.dump(1));
    write(path + "/states.jsonl", states);
    write(path + "/routes.jsonl", routes);
    write(path + "/example.json", Json{{"state", 1}, {"mass", 0.1}, {"ids", Json::array()}}.dump());
    manifest["probes"].push_back({{"name", name}, {"path", path}, {"at", at}});
  }

  void write_probes() {
    std::vector<std::pair<std::string, std::string>> arms;
    for (const Variant& variant : variants())
      if (variant.k == Json(16)) arms.emplace_back(variant.name, "fresh_adamw");
    write_probe("arms", "base", arms);
    std::vector<std::pair<std::string, std::string>> ladder;
    for (const char* step :
         {"pair_isolated", "potential_wide", "potential_matched", "fresh_adamw", "saved_adamw", "sgd"})
      ladder.emplace_back("routeopd", step);
    write_probe("ladder", "routeopd-seed42 step 10", ladder);
    std::vector<std::pair<std::string, std::string>> support;
    for (const char* name : {"routeopd-k8", "routeopd", "routeopd-k64", "routeopd-kfull"})
      support.emplace_back(name, "fresh_adamw");
    write_probe("support", "base", support);
  }

  void write_cost() const {
    Json cost = {
        {"rounds", 5}, {"reference", "sampled_rkl-lean"}, {"arms", Json::array()}, {"routes", Json::array()}};
    std::vector<Variant> measured = variants();
    measured.insert(measured.begin(), {"sampled_rkl-lean", "sampled_rkl", nullptr});
    for (const Variant& variant : measured) {
      const bool lean = variant.name == "sampled_rkl-lean";
      const double own = lean ? -1 : place(variant.name);
      cost["arms"].push_back(
          {{"name", variant.name},
           {"k", variant.k},
           {"m", lean ? Json() : Json(variant.m)},
           {"seconds",
            {{"rollout", 0.2},
             {"score", 0.1},
             {"route", 0.01},
             {"learn", 0.2 + 0.01 * own},
             {"learner", 0.21 + 0.01 * own},
             {"total", 0.51 + 0.01 * own}}},
           {"tokens_per_second", 2000 - own},
           {"peak_bytes", 500000000 + 1000000 * own},
           {"teacher_calls", 1.0},
           {"relative_total",
            {{"mean", 1.01 + 0.01 * own}, {"low", 1.00 + 0.01 * own}, {"high", 1.02 + 0.01 * own}}},
           {"relative_learner", {{"mean", 1.1}, {"low", 1.0}, {"high", 1.2}}}});
    }
    for (const int k : {8, 16, 64})
      cost["routes"].push_back(
          {{"k", k}, {"m", 2}, {"top_k_ms", 0.1 * k}, {"routing_ms", 0.2 * k}, {"gather_ms", 0.3}});
    write("cost.json", cost.dump(1));
  }

  std::filesystem::path directory_;
};

}  // namespace routeopd::study
