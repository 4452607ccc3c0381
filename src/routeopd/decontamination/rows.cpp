// SPDX-License-Identifier: Apache-2.0
#include "routeopd/decontamination/rows.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"

namespace routeopd::decontamination {
namespace {

std::string text_in(const Json& value, const char* name) {
  if (!value.is_string()) throw UserError("{}: expected text, got {}", name, shown(value));
  return value.get<std::string>();
}

// A message's content is a text, or a list of parts of which some are texts.
std::string content_of(const Json& message) {
  if (!message.contains("content") || message["content"].is_null()) return {};
  const Json& content = message["content"];
  if (!content.is_array()) return text_in(content, "content");
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || !part.contains("text")) continue;  // an image
    text += text_in(part["text"], "text");
  }
  return text;
}

// Only the user's: what systems and assistants say is the same in many rows, or is no problem.
std::string user_text(const Json& messages) {
  if (!messages.is_array()) throw UserError("messages: expected a list, got {}", shown(messages));
  std::string text;
  bool any = false;
  for (const Json& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      throw UserError("messages: expected objects with a role, got {}", shown(message));
    if (message["role"] != "user") continue;
    if (any) text += '\n';
    text += content_of(message);
    any = true;
  }
  if (!any) throw UserError("messages: none is the user's");
  return text;
}

std::string problem_text(const Json& line) {
  std::string kinds;
  for (const char* kind : {"problem", "messages", "prompt", "prompt_ids"}) {
    if (line.contains(kind)) kinds += (kinds.empty() ? "" : " and ") + std::string(kind);
  }
  if (kinds == "problem" || kinds == "prompt") return text_in(line[kinds], kinds.c_str());
  if (kinds == "messages") return user_text(line["messages"]);
  if (kinds == "prompt_ids")
    throw UserError("prompt_ids cannot be compared with a text; expected problem, messages or prompt");
  throw UserError("expected one of problem, messages and prompt, got {}", kinds.empty() ? "none" : kinds);
}

}  // namespace

ProblemLines::ProblemLines(const std::string& path) : lines_(path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw UserError("{}: expected a file, got a stream; write it to one", path);
}

std::optional<ProblemLine> ProblemLines::next() {
  const std::optional<Json> line = lines_.next();
  if (!line) return std::nullopt;
  try {
    ProblemLine problem;
    problem.id = formats::id_of(*line, count_);
    problem.text = problem_text(*line);
    if (line->contains("answer") && !(*line)["answer"].is_null()) problem.answer = shown((*line)["answer"]);
    ++count_;
    return problem;
  } catch (const UserError& error) {
    throw UserError("{}: {}", lines_.where(), error.what());
  }
}

Digest digest_of(std::string_view text) {
  constexpr std::size_t kDigits = 16;  // of 64 bits
  const std::string hexadecimal = sha256(text);
  Digest digest;
  for (std::size_t i = 0; i < digest.bits.size(); ++i) {
    const char* const first = hexadecimal.data() + i * kDigits;
    std::from_chars(first, first + kDigits, digest.bits[i], 16);
  }
  return digest;
}

std::uint32_t RowGroups::add(const Digest& digest, const std::optional<std::string>& answer) {
  if (groups_.size() == std::numeric_limits<std::uint32_t>::max())
    throw UserError("more than {} different rows; check a part of the file at a time", groups_.size());
  const auto [found, is_new] = group_of_.emplace(digest, static_cast<std::uint32_t>(groups_.size()));
  if (is_new) groups_.push_back({.first_row = rows_, .answer = {}, .conflicting = false});
  ++rows_;
  Group& group = groups_[found->second];
  if (answer) {
    const Digest given = digest_of(*answer);
    if (!group.answer) group.answer = given;
    group.conflicting = group.conflicting || *group.answer != given;
  }
  return found->second;
}

std::int64_t RowGroups::conflicts() const {
  return std::count_if(groups_.begin(), groups_.end(), [](const Group& group) { return group.conflicting; });
}

}  // namespace routeopd::decontamination
