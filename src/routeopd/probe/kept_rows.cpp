// SPDX-License-Identifier: Apache-2.0
#include "routeopd/probe/kept_rows.h"

#include <cmath>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "routeopd/base/error.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"

namespace routeopd::probe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRows = "rows.jsonl";

std::string key_of(const std::string& arm, Intervention intervention) {
  return fmt::format("{} {}", name_of(intervention), arm);
}

// JSON has no NaN, of which rows have one kind, and no infinity.
Json json_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values)
    list.push_back(std::isnan(value)   ? Json()
                   : std::isinf(value) ? Json(value > 0 ? "inf" : "-inf")
                                       : Json(value));
  return list;
}

std::vector<double> doubles_in(const Json& list) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values;
  for (const Json& value : list)
    values.push_back(value.is_null()     ? std::nan("")
                     : value.is_string() ? (value == "inf" ? kInfinity : -kInfinity)
                                         : value.get<double>());
  return values;
}

Json json_of(const ProbeRow& row) {
  const Changes& changes = row.changes;
  return {{"arm", row.name},
          {"intervention", std::string(name_of(row.intervention))},
          {"scale", row.scale},
          {"rms", json_of(std::vector<double>{row.rms})},
          {"changes",
           {{"fidelity", json_of(changes.fidelity_S)},
            {"leakage", json_of(changes.leakage_S)},
            {"mass_after", json_of(changes.mass_after_S)},
            {"budget", json_of(changes.budget_S)},
            {"pairs", changes.pairs},
            {"source", changes.source_SM},
            {"destination", changes.destination_SM},
            {"target", json_of(changes.target_SM)},
            {"achieved", json_of(changes.achieved_SM)}}}};
}

ProbeRow row_of(const Json& line) {
  ProbeRow row;
  row.name = line.at("arm").get<std::string>();
  row.intervention = intervention_of(line.at("intervention").get<std::string>());
  row.scale = line.at("scale").get<double>();
  row.rms = doubles_in(line.at("rms")).at(0);
  const Json& changes = line.at("changes");
  row.changes.fidelity_S = doubles_in(changes.at("fidelity"));
  row.changes.leakage_S = doubles_in(changes.at("leakage"));
  row.changes.mass_after_S = doubles_in(changes.at("mass_after"));
  row.changes.budget_S = doubles_in(changes.at("budget"));
  row.changes.pairs = changes.at("pairs").get<std::int32_t>();
  row.changes.source_SM = changes.at("source").get<std::vector<std::int32_t>>();
  row.changes.destination_SM = changes.at("destination").get<std::vector<std::int32_t>>();
  row.changes.target_SM = doubles_in(changes.at("target"));
  row.changes.achieved_SM = doubles_in(changes.at("achieved"));
  return row;
}

}  // namespace

fs::path kept_rows_path(const fs::path& out) {
  fs::path path = out.filename().empty() ? out.parent_path() : out;  // "dir/" is "dir"
  path += ".unfinished";
  return path;
}

void forget_kept_rows(const fs::path& out) {
  const fs::path path = kept_rows_path(out);
  remove_abandoned(path.parent_path(), path.filename().string());
  std::error_code none;
  if (!fs::is_directory(path, none)) return;
  try {
    const DirectoryLock lock(path);
    remove_whole(path);
  } catch (const UserError&) {  // another process works there
  }
}

KeptRows::KeptRows(const fs::path& out, const Json& request) : path_(kept_rows_path(out)) {
  std::error_code failed;
  fs::create_directories(path_, failed);
  if (failed) throw UserError("{}: cannot be made ({})", path_.string(), failed.message());
  lock_.emplace(path_);
  const fs::path file = path_ / kRows;
  lines_.emplace(file, LineFile::Found::kKeep);  // drops a last line that is not whole
  if (lines_->lines() == 0) {
    lines_->write(Json{{"request", request}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    read(request);
  }
}

void KeptRows::read(const Json& request) {
  formats::JsonLines lines((path_ / kRows).string());
  const std::optional<Json> first = lines.next();
  // Through text, as the first line went: what is not UTF-8 is replaced there.
  const Json said = Json::parse(request.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!first || formats::value_or_null(*first, "request") != said)
    throw UserError(
        "{}: holds rows of another command, or of files that have changed since; remove it, or choose "
        "another "
        "--out",
        path_.string());
  while (const std::optional<Json> line = lines.next()) {
    try {
      ProbeRow row = row_of(*line);
      const std::string key = key_of(row.name, row.intervention);
      rows_.insert_or_assign(key, std::move(row));
    } catch (const std::exception&) {
      throw UserError("{}: is no row of a probe; remove {}", lines.where(), path_.string());
    }
  }
}

KeptRows::~KeptRows() {
  const bool empty = lines_ && lines_->lines() < 2;
  if (empty) remove();
}

const ProbeRow* KeptRows::find(const std::string& arm, Intervention intervention) const {
  const auto found = rows_.find(key_of(arm, intervention));
  return found == rows_.end() ? nullptr : &found->second;
}

void KeptRows::add(const ProbeRow& row) {
  lines_->write(json_of(row).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void KeptRows::remove() {
  lines_.reset();
  remove_whole(path_);
}

}  // namespace routeopd::probe
