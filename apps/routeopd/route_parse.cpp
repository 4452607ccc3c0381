// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "route_line.h"

namespace routeopd::app {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kVocabularyLimit = 1 << 22;
constexpr double kLogitLimit = 1e30;  // differences and sums stay finite in single precision

std::vector<double> logits_of(const Json& line, const std::string& key) {
  const Json& values = line[key];
  if (!values.is_array() || values.empty())
    throw UserError("{}: expected a list of numbers, got {}", key, values.type_name());
  if (values.size() > kVocabularyLimit)
    throw UserError("{}: {} values are more than {}", key, values.size(), kVocabularyLimit);
  std::vector<double> logits;
  logits.reserve(values.size());
  for (const Json& value : values) {
    if (value == "-inf") {
      logits.push_back(-kInfinity);
    } else if (value.is_number() && std::abs(value.get<double>()) <= kLogitLimit) {
      logits.push_back(value.get<double>());
    } else {
      throw UserError("{}[{}]: expected a number of size up to {} or \"-inf\", got {}", key, logits.size(),
                      kLogitLimit, value.dump());
    }
  }
  if (*std::max_element(logits.begin(), logits.end()) == -kInfinity) {
    throw UserError("{}: every value is -inf, so there is no distribution", key);
  }
  return logits;
}

std::int32_t id_of(const Json& value, const std::string& what, std::size_t vocabulary) {
  try {
    return static_cast<std::int32_t>(
        number_in(value, {.low = 0, .high = static_cast<double>(vocabulary - 1)}, true));
  } catch (const UserError& error) {
    throw UserError("{}: {} (an id of the vocabulary)", what, error.what());
  }
}

void read_settings(const Json& options, RouteSettings& settings) {
  if (!options.is_object()) throw UserError("options: expected an object, got {}", options.type_name());
  Json objective = options;
  if (objective.contains("seed")) {
    if (!objective["seed"].is_number_unsigned()) {
      throw UserError("options.seed: expected a whole number from 0, got {}", objective["seed"].dump());
    }
    settings.seed = objective["seed"].get<std::uint64_t>();
    objective.erase("seed");
  }
  try {
    settings.objective = routing::objective_from(objective, settings.objective);
  } catch (const UserError& error) {
    throw UserError("options.{}", error.what());
  }
}

void check_keys(const Json& line) {
  static const std::vector<std::string> known = {
      "student_logits", "teacher_logits", "current_logits", "pairs", "action", "options", "name", "tokens"};
  for (const auto& [key, value] : line.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw UserError("unknown field {}; did you mean {}?", key, nearest_name(key, known));
    }
  }
  for (const char* key : {"student_logits", "teacher_logits"}) {
    if (!line.contains(key)) throw UserError("{}: missing", key);
  }
}

}  // namespace

RouteLine parse_route_line(const Json& line, const RouteSettings& base) {
  check_keys(line);
  RouteLine state;
  state.settings = base;
  if (line.contains("options")) read_settings(line["options"], state.settings);
  state.student = logits_of(line, "student_logits");
  state.teacher = logits_of(line, "teacher_logits");
  state.has_current = line.contains("current_logits");
  state.current = state.has_current ? logits_of(line, "current_logits") : state.student;
  const std::size_t vocabulary = state.student.size();
  for (const auto& [key, size] : {std::pair("teacher_logits", state.teacher.size()),
                                  std::pair("current_logits", state.current.size())}) {
    if (size != vocabulary)
      throw UserError("{}: expected {} values as in student_logits, got {}", key, vocabulary, size);
  }
  for (std::size_t v = 0; v < vocabulary; ++v) {
    if ((state.student[v] == -kInfinity) != (state.current[v] == -kInfinity)) {
      throw UserError("current_logits[{}]: expected -inf exactly where student_logits has it", v);
    }
  }

  if (line.contains("pairs")) {
    state.pairs.emplace();
    if (!line["pairs"].is_array())
      throw UserError("pairs: expected a list of [source, destination], got {}", line["pairs"].type_name());
    for (const Json& pair : line["pairs"]) {
      if (!pair.is_array() || pair.size() != 2)
        throw UserError("pairs: expected [source, destination], got {}", pair.dump());
      state.pairs->push_back({id_of(pair[0], "pairs", vocabulary), id_of(pair[1], "pairs", vocabulary)});
      if (pair[0] == pair[1]) throw UserError("pairs: source and destination are both {}", pair[0].dump());
    }
    if (state.pairs->empty()) throw UserError("pairs: the list is empty; leave it out to have pairs drawn");
    if (state.settings.objective.pairs == routing::Pairs::kExact) {
      throw UserError("pairs: given pairs and options.pairs = exact contradict each other; choose one");
    }
  }
  if (line.contains("action")) {
    state.action = id_of(line["action"], "action", vocabulary);
    if (state.student[static_cast<std::size_t>(*state.action)] == -kInfinity) {
      throw UserError("action: id {} has probability 0 under student_logits", *state.action);
    }
  }
  if (line.contains("name") && line["name"].is_string()) state.name = line["name"].get<std::string>();
  if (line.contains("tokens")) {
    try {
      state.tokens = line["tokens"].get<std::vector<std::string>>();
    } catch (const Json::exception&) {
      throw UserError("tokens: expected a list of texts");
    }
    if (state.tokens.size() != vocabulary) {
      throw UserError("tokens: expected {} texts as in student_logits, got {}", vocabulary,
                      state.tokens.size());
    }
  }
  return state;
}

}  // namespace routeopd::app
