// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/compatibility.h"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>

#include "routeopd/base/fields.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/model_config.h"
#include "routeopd/text/chat_suite.h"
#include "routeopd/text/chat_template_files.h"
#include "routeopd/tokenizer/declared_tokens.h"
#include "routeopd/tokenizer/tokenizer.h"
#include "routeopd/tokenizer/tokenizer_file.h"

namespace routeopd::text {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShown = 60;  // bytes of a text to show

// What is compared of one directory.
struct Side {
  explicit Side(const fs::path& directory)
      : tokenizer(directory),
        templates(read_chat_templates(directory)),
        specials(tokenizer::read_special_tokens(directory)) {
    std::error_code ignored;
    if (fs::exists(directory / "config.json", ignored)) config = formats::read_model_config(directory);
  }

  tokenizer::Tokenizer tokenizer;
  std::optional<ChatTemplates> templates;
  OrderedJson specials;  // bos_token, eos_token, … by name
  std::optional<formats::ModelConfig> config;
};

std::string quoted(std::string text) {
  if (text.size() > kShown) text = text.substr(0, kShown) + " …";
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string token_shown(const Side& side, std::int32_t id) {
  if (id < 0 || id >= side.tokenizer.real_ids()) return "nothing";
  return quoted(side.tokenizer.token_of(id));
}

CompatibilityCheck failed(std::string name, std::string detail) {
  return {std::move(name), false, std::move(detail)};
}

CompatibilityCheck check_vocabulary(const Side& student, const Side& teacher) {
  const std::int32_t ours = student.tokenizer.real_ids(), theirs = teacher.tokenizer.real_ids();
  for (std::int32_t id = 0; id < std::min(ours, theirs); ++id) {
    if (student.tokenizer.token_of(id) != teacher.tokenizer.token_of(id))
      return failed("vocabulary", fmt::format("id {} is {} to the student and {} to the teacher", id,
                                              token_shown(student, id), token_shown(teacher, id)));
  }
  if (ours != theirs) {
    const bool more = ours > theirs;
    return failed("vocabulary",
                  fmt::format("the student has {} ids, the teacher {}; the first beyond is {}, {}'s {}", ours,
                              theirs, std::min(ours, theirs), more ? "the student" : "the teacher",
                              token_shown(more ? student : teacher, std::min(ours, theirs))));
  }
  return {"vocabulary", true, fmt::format("{} ids, each the same token", ours)};
}

std::string flags_of(const tokenizer::AddedToken& token) {
  std::string flags;
  for (const auto& [set, name] : {std::pair(token.special, "special"),
                                  {token.normalized, "normalized"},
                                  {token.lstrip, "lstrip"},
                                  {token.rstrip, "rstrip"},
                                  {token.single_word, "single_word"}}) {
    if (set) flags += (flags.empty() ? "" : ", ") + std::string(name);
  }
  return flags.empty() ? "no flags" : flags;
}

CompatibilityCheck check_added_tokens(const Side& student, const Side& teacher) {
  const auto& ours = student.tokenizer.added_tokens();
  const auto& theirs = teacher.tokenizer.added_tokens();
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i >= ours.size() || i >= theirs.size()) {
      const tokenizer::AddedToken& extra = i < ours.size() ? ours[i] : theirs[i];
      return failed("added_tokens",
                    fmt::format("{} (id {}) is an added token of the {} alone", quoted(extra.content),
                                extra.id, i < ours.size() ? "student" : "teacher"));
    }
    if (ours[i].id != theirs[i].id || ours[i].content != theirs[i].content)
      return failed(
          "added_tokens",
          fmt::format("the student's token {} is {} (id {}), the teacher's {} (id {})", i,
                      quoted(ours[i].content), ours[i].id, quoted(theirs[i].content), theirs[i].id));
    if (flags_of(ours[i]) != flags_of(theirs[i]))
      return failed("added_tokens",
                    fmt::format("{} (id {}) has {} with the student and {} with the teacher",
                                quoted(ours[i].content), ours[i].id, flags_of(ours[i]), flags_of(theirs[i])));
  }
  return {"added_tokens", true, fmt::format("{} tokens with the same ids and flags", ours.size())};
}

tokenizer::TokenizerFile tokenizer_file_in(const fs::path& directory) {
  const fs::path path = directory / "tokenizer.json";
  return tokenizer::read_tokenizer_file(formats::read_text_file(path, tokenizer::kMaxTokenizerFile),
                                        path.string());
}

std::string merge_shown(const tokenizer::TokenizerFile& file, std::size_t i) {
  if (!file.merges || i >= file.merges->size()) return "none";
  return fmt::format("{} {}", file.merges->side(2 * i), file.merges->side(2 * i + 1));
}

// The other parts that turn text into ids: a suite of chats uses few of the merges.
CompatibilityCheck check_pipeline(const fs::path& student, const fs::path& teacher) {
  const tokenizer::TokenizerFile ours = tokenizer_file_in(student), theirs = tokenizer_file_in(teacher);
  const auto apart = [](const std::string& what, const std::string& left, const std::string& right) {
    return failed("pipeline", fmt::format("{} is {} for the student and {} for the teacher", what,
                                          quoted(left), quoted(right)));
  };
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const Json &left = formats::value_or_null(ours.rest, part),
               &right = formats::value_or_null(theirs.rest, part);
    if (left != right) return apart(part, left.dump(), right.dump());
  }
  for (const char* flag : {"type", "unk_token", "byte_fallback", "fuse_unk", "ignore_merges"}) {
    const Json& left = formats::value_or_null(formats::value_or_null(ours.rest, "model"), flag);
    const Json& right = formats::value_or_null(formats::value_or_null(theirs.rest, "model"), flag);
    const bool both_off = (left.is_null() || left == false) && (right.is_null() || right == false);
    if (left != right && !both_off) return apart(flag, left.dump(), right.dump());
  }
  const auto count = [](const tokenizer::TokenizerFile& file) {
    return file.merges ? file.merges->size() : 0;
  };
  for (std::size_t i = 0; i < std::max(count(ours), count(theirs)); ++i) {
    if (merge_shown(ours, i) != merge_shown(theirs, i))
      return apart(fmt::format("merge {}", i), merge_shown(ours, i), merge_shown(theirs, i));
  }
  return {"pipeline", true, fmt::format("the same steps and {} merges", count(ours))};
}

CompatibilityCheck check_special_ids(const Side& student, const Side& teacher) {
  std::set<std::string> names;
  for (const Side* side : {&student, &teacher})
    for (const auto& [name, token] : side->specials.items()) names.insert(name);
  const auto told = [](const Side& side, const std::string& name) -> std::string {
    const auto found = side.specials.find(name);
    if (found == side.specials.end()) return "none";
    const auto& token = found->get_ref<const std::string&>();
    return fmt::format("{} (id {})", quoted(token), side.tokenizer.id_of(token));
  };
  std::string same;
  for (const std::string& name : names) {
    if (told(student, name) != told(teacher, name))
      return failed("special_ids", fmt::format("{} is {} for the student and {} for the teacher", name,
                                               told(student, name), told(teacher, name)));
    same += (same.empty() ? "" : ", ") + name + " " + told(student, name);
  }
  return {"special_ids", true, names.empty() ? "neither names any" : same};
}

std::string ids_shown(const std::set<std::int32_t>& ids) {
  std::string all;
  for (const std::int32_t id : ids) all += (all.empty() ? "" : ", ") + std::to_string(id);
  return ids.empty() ? "none" : all;
}

CompatibilityCheck check_eos_ids(const Side& student, const Side& teacher) {
  if (!student.config || !teacher.config)
    return {"eos_ids", true, "not compared: a directory has no config.json"};
  const auto& ours = student.config->eos_token_ids;
  const auto& theirs = teacher.config->eos_token_ids;
  const std::set<std::int32_t> left(ours.begin(), ours.end()), right(theirs.begin(), theirs.end());
  if (left != right)
    return failed("eos_ids",
                  fmt::format("the student ends a response at {}, the teacher at {}; set eos_token_id in "
                              "generation_config.json alike",
                              ids_shown(left), ids_shown(right)));
  return {"eos_ids", true, "both end a response at " + ids_shown(left)};
}

// The first line in which two texts differ.
std::string first_line_apart(const std::string& ours, const std::string& theirs) {
  const std::size_t same = static_cast<std::size_t>(
      std::mismatch(ours.begin(),
                    ours.begin() + static_cast<std::ptrdiff_t>(std::min(ours.size(), theirs.size())),
                    theirs.begin())
          .first -
      ours.begin());
  const std::size_t start = same == 0 ? 0 : ours.rfind('\n', same - 1) + 1;  // npos + 1 = 0
  const auto line = 1 + std::count(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(start), '\n');
  const auto rest = [&](const std::string& text) {
    return quoted(text.substr(start, text.find('\n', start) - start));
  };
  return fmt::format("line {}: {} with the student, {} with the teacher", line, rest(ours), rest(theirs));
}

CompatibilityCheck check_template(const Side& student, const Side& teacher) {
  if (!student.templates && !teacher.templates) return {"template", true, "neither has one"};
  if (!student.templates || !teacher.templates)
    return failed("template",
                  fmt::format("the {} alone has a chat template", student.templates ? "student" : "teacher"));
  const std::vector<std::string> ours = student.templates->names(), theirs = teacher.templates->names();
  if (ours != theirs)
    return failed("template", fmt::format("the student has the templates {}, the teacher {}",
                                          fmt::join(ours, ", "), fmt::join(theirs, ", ")));
  for (const std::string& name : ours) {
    const std::string& left = student.templates->source(name);
    const std::string& right = teacher.templates->source(name);
    if (left != right) return failed("template", name + ", " + first_line_apart(left, right));
  }
  return {"template", true, fmt::format("the same text, {}", fmt::join(ours, ", "))};
}

// A chat as ids, or why the template refuses it.
struct Rendered {
  std::vector<std::int32_t> ids;
  std::string refused;
};

Rendered rendered(const Side& side, const SuiteChat& chat) {
  try {
    if (side.templates)
      return {side.tokenizer.encode(side.templates->render(chat.messages, chat.options)), ""};
    std::string text;  // without a template, the contents alone
    for (const auto& message : chat.messages) text += message["content"].get<std::string>() + "\n";
    return {side.tokenizer.encode(text, true), ""};
  } catch (const UserError& error) {
    return {{}, error.what()};
  }
}

CompatibilityCheck check_chats(const Side& student, const Side& teacher) {
  std::size_t tokens = 0, refused = 0;
  for (const SuiteChat& chat : chat_suite()) {
    const Rendered ours = rendered(student, chat), theirs = rendered(teacher, chat);
    if (ours.refused.empty() != theirs.refused.empty())
      return failed("chats", fmt::format("\"{}\": the {}'s template refuses it ({})", chat.name,
                                         ours.refused.empty() ? "teacher" : "student",
                                         ours.refused.empty() ? theirs.refused : ours.refused));
    refused += ours.refused.empty() ? 0 : 1;
    tokens += ours.ids.size();
    if (ours.ids == theirs.ids) continue;
    const auto count = std::min(ours.ids.size(), theirs.ids.size());
    const auto at = static_cast<std::size_t>(
        std::mismatch(ours.ids.begin(), ours.ids.begin() + static_cast<std::ptrdiff_t>(count),
                      theirs.ids.begin())
            .first -
        ours.ids.begin());
    const auto told = [&](const Side& side, const std::vector<std::int32_t>& ids) {
      return at < ids.size() ? fmt::format("{} {}", ids[at], token_shown(side, ids[at]))
                             : std::string("the end");
    };
    return failed("chats", fmt::format("\"{}\": token {} is {} for the student and {} for the teacher",
                                       chat.name, at, told(student, ours.ids), told(teacher, theirs.ids)));
  }
  if (refused == chat_suite().size())
    return failed("chats", "both templates refuse every chat of the suite; is the template whole?");
  const std::string apart = refused > 0 ? fmt::format(", {} refused by both templates", refused) : "";
  return {"chats", true,
          fmt::format("{} chats, {} tokens, the same ids{}", chat_suite().size(), tokens, apart)};
}

CompatibilityCheck check_widths(const Side& student, const Side& teacher) {
  if (!student.config || !teacher.config)
    return {"widths", true, "not compared: a directory has no config.json"};
  for (const auto& [side, who] : {std::pair(&student, "student"), {&teacher, "teacher"}}) {
    if (side->config->vocab_size < side->tokenizer.real_ids())
      return failed("widths", fmt::format("the {}'s embedding has {} rows for a tokenizer of {} ids", who,
                                          side->config->vocab_size, side->tokenizer.real_ids()));
  }
  const std::int64_t ours = student.config->vocab_size, theirs = teacher.config->vocab_size;
  return {"widths", true,
          ours == theirs ? fmt::format("{} rows each", ours)
                         : fmt::format("{} and {} rows, padding that takes no part", ours, theirs)};
}

}  // namespace

bool Compatibility::passed() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const CompatibilityCheck& check) { return check.passed; });
}

std::string Compatibility::first_difference() const {
  for (const CompatibilityCheck& check : checks) {
    if (!check.passed) return check.name + ": " + check.detail;
  }
  return "";
}

Compatibility check_compatibility(const fs::path& student, const fs::path& teacher) {
  const Side ours(student), theirs(teacher);
  return {{check_vocabulary(ours, theirs), check_added_tokens(ours, theirs), check_pipeline(student, teacher),
           check_special_ids(ours, theirs), check_eos_ids(ours, theirs), check_template(ours, theirs),
           check_chats(ours, theirs), check_widths(ours, theirs)}};
}

}  // namespace routeopd::text
