// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/run_probe.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/model/model_files.h"
#include "routeopd/probe/bank_file.h"
#include "routeopd/probe/distribution_dump.h"
#include "routeopd/probe/example.h"
#include "routeopd/probe/kept_rows.h"
#include "routeopd/probe/summary.h"
#include "routeopd/tokenizer/tokenizer.h"

namespace routeopd::probe {
namespace {

namespace fs = std::filesystem;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A directory without a tokenizer has ids alone.
TextOf texts_of(const fs::path& directory) {
  if (!fs::exists(directory / "tokenizer.json")) return [](std::int32_t) { return std::string(); };
  const auto tokenizer = std::make_shared<const tokenizer::Tokenizer>(directory);
  return [tokenizer](std::int32_t id) { return std::string(tokenizer->bytes_of(id)); };
}

// The checkpoint's step, where the directory is one.
Json step_of(const fs::path& student) {
  const fs::path state = student / "state" / "state.json";
  if (!fs::exists(state)) return {};
  return formats::read_json_object(state, 1 << 20).value("step", Json());
}

void write_states(const fs::path& path, const Bank& bank, const Frozen& frozen,
                  const std::vector<ProbeRow>& rows, const TextOf& text) {
  AtomicFile file(path);
  for (std::size_t s = 0; s < bank.states(); ++s) {
    const auto& state = frozen.transport_S[s];
    const StateAddress& address = bank.rollout.address_N[bank.states_S[s]];
    const std::int32_t token = bank.rollout.id_N[bank.states_S[s]];
    Json values = Json::array();
    for (const ProbeRow& row : rows) {
      const auto or_null = [](double value) { return std::isnan(value) ? Json() : Json(value); };
      values.push_back({{"name", row.name},
                        {"intervention", std::string(name_of(row.intervention))},
                        {"fidelity", or_null(row.changes.fidelity_S[s])},
                        {"leakage", or_null(row.changes.leakage_S[s])},
                        {"deficit_reduction", or_null(state.mass - row.changes.mass_after_S[s])}});
    }
    file.write(line_of({{"state", s},
                        {"sequence", bank.sequence_S[s]},
                        {"prompt", address.prompt},
                        {"position", address.position},
                        {"token", token},
                        {"token_text", text(token)},
                        {"mass", state.mass},
                        {"concentration", state.concentration},
                        {"budget", state.budget},
                        {"teacher_entropy", frozen.teacher_entropy_S[s]},
                        {"values", values}}));
  }
  file.commit();
}

void write_routes(const fs::path& path, const Bank& bank, const Frozen& frozen,
                  const std::vector<ProbeRow>& rows, const TextOf& text) {
  AtomicFile file(path);
  for (const ProbeRow& row : rows) {
    const Changes& changes = row.changes;
    const auto width = static_cast<std::size_t>(changes.pairs);
    for (std::size_t i = 0; i < changes.source_SM.size(); ++i) {
      if (changes.source_SM[i] < 0) continue;
      const std::size_t s = i / width;
      const auto& state = frozen.transport_S[s];
      const auto share = [&](const routing::reference::Values& of, std::int32_t id) {
        const auto at = std::lower_bound(state.ids.begin(), state.ids.end(), id);
        const bool found = at != state.ids.end() && *at == id;
        return found ? Json(of[static_cast<std::size_t>(at - state.ids.begin())]) : Json();
      };
      const std::int32_t source = changes.source_SM[i], destination = changes.destination_SM[i];
      const StateAddress& address = bank.rollout.address_N[bank.states_S[s]];
      file.write(line_of({{"state", s},
                          {"prompt", address.prompt},
                          {"position", address.position},
                          {"name", row.name},
                          {"intervention", std::string(name_of(row.intervention))},
                          {"source", source},
                          {"destination", destination},
                          {"source_text", text(source)},
                          {"destination_text", text(destination)},
                          {"p_student_source", share(state.p_student, source)},
                          {"p_teacher_source", share(state.p_teacher, source)},
                          {"p_student_destination", share(state.p_student, destination)},
                          {"p_teacher_destination", share(state.p_teacher, destination)},
                          {"target", changes.target_SM[i]},
                          {"achieved", changes.achieved_SM[i]}}));
    }
  }
  file.commit();
}

void check_pair(const Bank& bank, const ProbeRequest& request, const model::Model& student,
                const at::Tensor& teacher_head, const std::string& teacher_hash) {
  if (!bank.teacher.sha256.empty() && bank.teacher.sha256 != teacher_hash)
    throw UserError("{}: was made with another teacher than {}; name that one, or make a bank with this one",
                    request.bank.string(), request.teacher.string());
  if (teacher_head.size(1) != bank.teacher_hidden_SX.size(1) || teacher_head.size(0) < bank.real_ids ||
      student.head_VH.size(0) < bank.real_ids)
    throw UserError("{}: its {} ids or hidden states do not fit these models", request.bank.string(),
                    bank.real_ids);
}

// All that the rows of a probe depend on.
Json rows_request(const ProbeRequest& request, const Bank& bank, const std::string& student_hash,
                  const std::string& teacher_hash, const SavedMoments* moments) {
  const train::OptimizerSection& optimizer = request.optimizer;
  Json arms = Json::array();
  for (const ProbeArm& arm : request.arms) {
    Json settings = Json::object();
    for (const auto& field : routing::objective_fields()) settings[field.name] = field.get(arm.objective);
    arms.push_back({{"name", arm.name}, {"objective", settings}});
  }
  return {{"version", 1},
          {"bank", bank.sha256},
          {"student", student_hash},
          {"teacher", teacher_hash},
          {"moments", moments == nullptr ? "" : formats::weights_sha256(request.moments / "state")},
          {"updates", moments == nullptr ? 0 : moments->updates()},
          {"arms", arms},
          {"optimizer",
           {optimizer.lr, optimizer.beta1, optimizer.beta2, optimizer.eps, optimizer.weight_decay,
            optimizer.clip}},
          {"matched", std::string(name_of(request.size.kind))},
          {"rms", request.size.rms}};
}

}  // namespace

ProbeArm arm_of(const std::string& words, const routing::ObjectiveOptions& bank) {
  std::string name, rest = words;
  const std::size_t colon = words.find(':'), equals = words.find('=');
  if (equals != std::string::npos && equals < colon) {
    name = words.substr(0, equals);
    rest = words.substr(equals + 1);
  }
  const std::size_t at = rest.find(':');
  Json settings = {{"arm", rest.substr(0, at)}};
  std::string made = rest.substr(0, at);
  for (std::size_t begin = at; begin != std::string::npos;) {
    const std::size_t end = rest.find(',', begin + 1);
    const std::string said = rest.substr(begin + 1, end == std::string::npos ? end : end - begin - 1);
    const std::size_t split = said.find('=');
    if (split == std::string::npos || split == 0)
      throw UsageError("--arm: expected ARM or ARM:NAME=VALUE,…, got {}", words);
    settings[said.substr(0, split)] = value_of_word(said.substr(split + 1));
    made += fmt::format("-{}{}", said.substr(0, split), said.substr(split + 1));
    begin = end;
  }
  try {
    return {.name = name.empty() ? made : name, .objective = routing::objective_from(settings, bank)};
  } catch (const UserError& error) {
    throw UsageError("--arm {}: {}", words, error.what());
  }
}

Json run_probe(const ProbeRequest& request, const ProbeWatch& watch) {
  const Bank bank = read_bank(request.bank);
  const std::string student_hash = formats::weights_sha256(request.student),
                    teacher_hash = formats::weights_sha256(request.teacher);
  const bool own = !student_hash.empty() && student_hash == bank.student.sha256;
  const model::Model student = model::load_model(request.student);
  const at::Tensor teacher_head = model::load_model(request.teacher).head_VH;
  check_pair(bank, request, student, teacher_head, teacher_hash);
  std::optional<SavedMoments> moments;
  if (!request.moments.empty()) moments.emplace(request.moments);
  if (fs::exists(request.out)) forget_kept_rows(request.out);
  AtomicDirectory out(request.out);

  Prober prober(bank, student, teacher_head, request.optimizer, own, moments ? &*moments : nullptr,
                request.size);
  std::vector<std::pair<ProbeArm, Intervention>> plan;
  for (const ProbeArm& arm : request.arms)
    for (const Intervention intervention : request.interventions)
      if (prober.applies(arm, intervention)) plan.emplace_back(arm, intervention);
  // What was asked for and cannot be made is refused, not skipped.
  std::set<std::string> names;
  for (const ProbeArm& arm : request.arms) {
    if (!names.insert(arm.name).second)
      throw UsageError("--arm: {} is named twice; give one of them a name, as in other={}", arm.name,
                       arm.objective.arm);
    if (std::none_of(plan.begin(), plan.end(), [&](const auto& step) { return step.first.name == arm.name; }))
      throw UserError("--arm: {} has none of these interventions{}", arm.name,
                      arm.objective.loss == routing::Loss::kSft ? ": it knows no teacher" : "");
  }
  std::optional<DistributionDump> dump;
  if (!request.dump.empty()) dump.emplace(request.dump, bank, prober, teacher_head);

  // The distributions of a row are not kept, so that a dump needs all rows made anew.
  std::optional<KeptRows> kept;
  if (!dump)
    kept.emplace(request.out,
                 rows_request(request, bank, student_hash, teacher_hash, moments ? &*moments : nullptr));
  std::vector<ProbeRow> rows;
  Json summaries = Json::array();
  for (const auto& [arm, intervention] : plan) {
    if (watch)
      watch(std::ssize(rows), std::ssize(plan), fmt::format("{} {}", arm.name, name_of(intervention)));
    check_interrupt();
    const std::int32_t pairs = intervention == Intervention::kPairIsolated ? arm.objective.m : 1;
    if (const ProbeRow* const before = kept ? kept->find(arm.name, intervention) : nullptr) {
      rows.push_back(*before);
    } else {
      rows.push_back(prober.run(
          arm, intervention,
          dump ? dump->rows(fmt::format("{}.{}", arm.name, name_of(intervention)), pairs) : AfterRow()));
      if (kept) kept->add(rows.back());
    }
    summaries.push_back(summary_of(rows.back(), bank, prober.frozen()));
  }
  Json arms = Json::array();
  for (const ProbeArm& arm : request.arms) arms.push_back(json_of(arm, prober.statistics(arm)));
  const TextOf text = texts_of(request.student);
  const std::optional<double> rms = prober.matched_rms();
  const Json result = {{"kind", "probe"},
                       {"version", 1},
                       {"bank",
                        {{"path", request.bank.string()},
                         {"sha256", bank.sha256},
                         {"states", bank.states()},
                         {"sequences", bank.rollout.responses_B.size()},
                         {"seed", bank.seed},
                         {"k", bank.objective.k},
                         {"m", bank.objective.m}}},
                       {"student",
                        {{"path", request.student.string()},
                         {"sha256", student_hash},
                         {"frozen", own},
                         {"step", step_of(request.student)}}},
                       {"teacher", {{"path", request.teacher.string()}, {"sha256", teacher_hash}}},
                       {"optimizer", request.moments.empty() ? Json() : Json(request.moments.string())},
                       {"lr", request.optimizer.lr},
                       {"matched", std::string(name_of(request.size.kind))},
                       {"rms", rms ? Json(*rms) : Json()},
                       {"statistics", bank_statistics(bank, prober.frozen())},
                       {"arms", arms},
                       {"rows", summaries}};
  write_states(out.path() / "states.jsonl", bank, prober.frozen(), rows, text);
  write_routes(out.path() / "routes.jsonl", bank, prober.frozen(), rows, text);
  const Json example = example_state(bank, prober, teacher_head, text);
  write_file(out.path() / "example.json", line_of(example));
  write_file(out.path() / "probe.json", result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  if (dump) dump->commit();
  out.commit();
  if (kept) kept->remove();
  return result;
}

}  // namespace routeopd::probe
