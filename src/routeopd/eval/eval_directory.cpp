// SPDX-License-Identifier: Apache-2.0
#include "routeopd/eval/eval_directory.h"

#include "routeopd/base/files.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_lines.h"
#include "routeopd/grade/suite_summary.h"

namespace routeopd::eval {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProtocol = "protocol.json";
constexpr const char* kResponses = "responses.jsonl";
constexpr const char* kProblems = "problems.jsonl";
constexpr const char* kSummary = "summary.json";
constexpr std::int64_t kMaxProtocolBytes = 1 << 26;

// The dotted name of the first field of `mine` that differs in `theirs`; empty: none. Paths of the model and
// the suites do not count, their contents do.
std::string difference(const Json& mine, const Json& theirs, const std::string& name) {
  if (mine == theirs) return "";
  if (!mine.is_object() || !theirs.is_object()) return name;
  for (const auto& item : mine.items()) {
    const std::string field = name.empty() ? item.key() : fmt::format("{}.{}", name, item.key());
    if (field == "model.path" || (name.starts_with("suites.") && item.key() == "file")) continue;
    if (std::string found = difference(item.value(), theirs.value(item.key(), Json()), field); !found.empty())
      return found;
  }
  return name == "suites" && mine.size() != theirs.size() ? "list of suites" : "";
}

void check_same_protocol(const fs::path& path, const Json& mine, const Json& theirs) {
  const std::string field = difference(mine, theirs, "");
  if (field.empty()) return;
  throw UserError(
      "{}: exists already, an evaluation with another {}; say the same, or name another directory",
      path.string(), field);
}

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

bool is_complete(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kSummary, ignored) && !fs::exists(path / kProtocol, ignored);
}

bool is_resumable(const fs::path& path, const Json& protocol) {
  std::error_code ignored;
  if (!fs::is_regular_file(path / kProtocol, ignored)) return false;
  try {
    const Json there = formats::read_json_object(path / kProtocol, kMaxProtocolBytes);
    return difference(Json::parse(text_of(protocol)), there, "").empty();
  } catch (const UserError&) {  // not whole
    return false;
  }
}

std::optional<Json> finished_evaluation(const fs::path& path, const Json& protocol) {
  if (!is_complete(path)) return std::nullopt;
  Json summary = formats::read_json_object(path / kSummary, kMaxProtocolBytes);
  check_same_protocol(path, Json::parse(text_of(protocol)), summary);
  return summary;
}

bool grade_again(const fs::path& path, const Json& protocol,
                 const std::function<void(grade::EvalResponse&)>& regrade) {
  std::error_code ignored;
  const bool stopped = fs::is_regular_file(path / kProtocol, ignored);
  if (!stopped && !is_complete(path)) return false;
  const Json mine = Json::parse(text_of(protocol));
  Json theirs = formats::read_json_object(path / (stopped ? kProtocol : kSummary), kMaxProtocolBytes);
  if (difference(mine, theirs, "") != "extractor") return false;
  theirs["extractor"] = mine["extractor"];
  if (!difference(mine, theirs, "").empty()) return false;
  const DirectoryLock lock(path);
  remove_abandoned(path);
  if (fs::exists(path / kResponses, ignored)) {
    const LineFile whole_lines(path / kResponses,
                               LineFile::Found::kKeep);  // drops a last line that was cut off
    formats::JsonLines lines((path / kResponses).string());
    AtomicFile graded(path / kResponses);
    while (const auto line = lines.next()) {
      grade::EvalResponse response = grade::response_of(*line, lines.where());
      regrade(response);
      graded.write(grade::line_of(response));
    }
    graded.commit();
  }
  write_file(path / kProtocol, text_of(protocol));
  return true;
}

EvalDirectory::EvalDirectory(const fs::path& path, const Json& protocol, std::vector<SuiteProblems> suites,
                             std::int32_t n)
    : path_(path), protocol_(Json::parse(text_of(protocol))), suites_(std::move(suites)), n_(n) {
  std::error_code ignored;
  const bool stopped = fs::is_regular_file(path / kProtocol, ignored);
  if (!stopped && is_complete(path))
    throw UserError("{}: exists already, a complete evaluation; name another directory, or remove it",
                    path.string());
  if (!stopped) make_result_directory(path);
  lock_.emplace(path);
  remove_abandoned(path);
  if (stopped) {
    check_same_protocol(path, protocol_, formats::read_json_object(path / kProtocol, kMaxProtocolBytes));
  } else {
    write_file(path / kProtocol, text_of(protocol_));
  }
  for (const SuiteProblems& suite : suites_) {
    responses_.emplace_back(suite.ids.size() * static_cast<std::size_t>(n));
    line_of_.emplace_back(suite.ids.size() * static_cast<std::size_t>(n), -1);
  }
  lines_.emplace(path / kResponses, LineFile::Found::kKeep);
  if (stopped) read_found();
}

std::size_t EvalDirectory::place(std::size_t problem, std::int64_t sample) const {
  return problem * static_cast<std::size_t>(n_) + static_cast<std::size_t>(sample);
}

void EvalDirectory::read_found() {
  const fs::path path = path_ / kResponses;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  std::unordered_map<std::string, std::pair<std::size_t, std::unordered_map<std::string, std::size_t>>> known;
  for (std::size_t s = 0; s < suites_.size(); ++s) {
    auto& [number, rows] = known[suites_[s].name];
    number = s;
    for (std::size_t p = 0; p < suites_[s].ids.size(); ++p) rows[suites_[s].ids[p]] = p;
  }
  formats::JsonLines lines(path.string());
  while (const auto line = lines.next()) {
    grade::EvalResponse response = grade::response_of(*line, lines.where());
    const auto suite = known.find(response.suite);
    if (suite == known.end()) throw UserError("{}: suite {} is not asked for", lines.where(), response.suite);
    const auto& [number, rows] = suite->second;
    const auto row = rows.find(response.problem);
    if (row == rows.end() || response.sample >= n_)
      throw UserError("{}: problem {}, sample {} is not in the suite", lines.where(), response.problem,
                      response.sample);
    const std::size_t at = place(row->second, response.sample);
    if (line_of_[number][at] >= 0)
      throw UserError("{}: problem {}, sample {} is there twice", lines.where(), response.problem,
                      response.sample);
    line_of_[number][at] = lines.line() - 1;
    response.response.clear();
    responses_[number][at] = std::move(response);
    ++found_;
  }
}

std::vector<std::int32_t> EvalDirectory::missing(std::size_t suite, std::size_t problem) const {
  std::vector<std::int32_t> samples;
  for (std::int32_t sample = 0; sample < n_; ++sample)
    if (line_of_[suite][place(problem, sample)] < 0) samples.push_back(sample);
  return samples;
}

std::int64_t EvalDirectory::total() const {
  std::int64_t all = 0;
  for (const SuiteProblems& suite : suites_) all += std::ssize(suite.ids) * n_;
  return all;
}

std::int64_t EvalDirectory::missing() const {
  return total() - found_ - added_;
}

void EvalDirectory::add(std::size_t suite, std::size_t problem, grade::EvalResponse response) {
  const std::size_t at = place(problem, response.sample);
  ROUTEOPD_INVARIANT(line_of_[suite][at] < 0);
  line_of_[suite][at] = lines_->lines();
  lines_->write(grade::line_of(response));
  ++added_;
  response.response.clear();
  responses_[suite][at] = std::move(response);
}

Json EvalDirectory::finish() {
  ROUTEOPD_INVARIANT(missing() == 0);
  std::vector<std::size_t> places;
  for (const auto& suite : line_of_)
    for (const std::int64_t line : suite) places.push_back(static_cast<std::size_t>(line));
  lines_->finish(places);
  Json summary = protocol_;
  std::vector<Json> figures;  // one per suite
  AtomicFile problems(path_ / kProblems);
  for (std::size_t s = 0; s < suites_.size(); ++s) {
    figures.push_back(grade::suite_summary(responses_[s], grade::Bootstrap{}));
    summary["suites"][suites_[s].name].update(figures.back());
    for (const Json& problem : grade::problem_summaries(responses_[s]))
      problems.write(problem.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
  }
  problems.commit();
  summary["average"] = grade::average_summary(responses_, figures, grade::Bootstrap{});
  summary["avg"] = summary["average"]["avg"];
  write_file(path_ / kSummary, text_of(summary));
  remove_file(path_ / kProtocol);
  return summary;
}

}  // namespace routeopd::eval
