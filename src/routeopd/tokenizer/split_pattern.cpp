// SPDX-License-Identifier: Apache-2.0
#include "routeopd/tokenizer/split_pattern.h"

#include <oniguruma.h>

#include <time.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/utf8.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/tokenizer/unicode.h"
#include "routeopd/tokenizer/unicode_tables.h"

namespace routeopd::tokenizer {
namespace {

constexpr std::size_t kMaxPattern = 1U << 16U;
// A match in a run of n spaces or letters takes about n steps back and n stack entries of 40 bytes.
constexpr unsigned long kMaxRetries = 10'000'000;
constexpr unsigned kMaxStack = 1U << 24U;

// Each match is bounded in steps; all matches of a text together are bounded in time, since Oniguruma does
// not report its steps. Patterns of real tokenizers take 3 microseconds per byte.
constexpr double kMaxSeconds = 5;
constexpr double kMaxSecondsPerByte = 30e-6;
constexpr std::size_t kSearchesBetweenLooks = 256;

// This thread's processor time: a busy machine does not make a pattern slow.
double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

const OnigUChar* start_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

const OnigUChar* end_of(std::string_view text) {
  return start_of(text) + text.size();
}

std::string message_of(int code, OnigErrorInfo* info = nullptr) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> buffer = {};
  const int length = onig_error_code_to_str(buffer.data(), code, info);
  return {reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(std::max(length, 0))};
}

// The categories that we have tables for, under names of our own.
struct Category {
  std::string_view name;
  const char* ours;
  std::vector<std::span<const CodeRange>> parts;
};

const std::vector<Category>& categories() {
  static const std::vector<Category> all = {
      {"L", "routeopdL", {category_lu(), category_ll(), category_lt(), category_lm(), category_lo()}},
      {"Lu", "routeopdLu", {category_lu()}},
      {"Ll", "routeopdLl", {category_ll()}},
      {"Lt", "routeopdLt", {category_lt()}},
      {"Lm", "routeopdLm", {category_lm()}},
      {"Lo", "routeopdLo", {category_lo()}},
      {"M", "routeopdM", {category_m()}},
      {"N", "routeopdN", {category_n()}},
      {"P", "routeopdP", {category_p()}},
      {"S", "routeopdS", {category_s()}},
  };
  return all;
}

// Oniguruma's format: the number of ranges, then the first and last of each, sorted and not adjacent.
std::vector<OnigCodePoint> ranges_of(const Category& category) {
  std::vector<CodeRange> ranges;
  for (const auto part : category.parts) ranges.insert(ranges.end(), part.begin(), part.end());
  std::sort(ranges.begin(), ranges.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<OnigCodePoint> flat = {0};
  for (const CodeRange& range : ranges) {
    if (flat.size() > 1 && flat.back() + 1 == range.first) {
      flat.back() = range.last;
    } else {
      flat.insert(flat.end(), {range.first, range.last});
      ++flat[0];
    }
  }
  return flat;
}

void initialize_once() {
  static std::once_flag done;
  std::call_once(done, [] {
    OnigEncoding encoding = ONIG_ENCODING_UTF8;
    onig_initialize(&encoding, 1);
    static std::vector<std::vector<OnigCodePoint>> tables;  // Oniguruma keeps pointers to them
    for (const Category& category : categories()) {
      tables.push_back(ranges_of(category));
      ROUTEOPD_INVARIANT(onig_unicode_define_user_property(category.ours, tables.back().data()) ==
                         ONIG_NORMAL);
    }
  });
}

// The expression with \p{L} replaced by \p{routeopdL}, and so on.
std::string with_our_categories(std::string_view expression) {
  std::string ours;
  for (std::size_t at = 0; at < expression.size();) {
    const std::string_view rest = expression.substr(at);
    std::size_t taken = rest.front() == '\\' ? std::min<std::size_t>(2, rest.size()) : 1;
    ours += rest.substr(0, taken);
    if (rest.starts_with("\\p{") || rest.starts_with("\\P{")) {
      const bool negated = rest.substr(3).starts_with('^');
      const std::size_t name = negated ? 4 : 3;
      const std::size_t close = rest.find('}', name);
      for (const Category& category : categories()) {
        if (close == std::string_view::npos || rest.substr(name, close - name) != category.name) continue;
        ours.append(negated ? "{^" : "{").append(category.ours).append("}");
        taken = close + 1;
      }
    }
    at += taken;
  }
  return ours;
}

// The bounds and the result of one search.
class Search {
 public:
  explicit Search(std::size_t text_size)
      : region_(onig_region_new(), free_region), limits_(onig_new_match_param(), onig_free_match_param) {
    ROUTEOPD_INVARIANT(region_ != nullptr && limits_ != nullptr);
    onig_initialize_match_param(limits_.get());
    onig_set_match_stack_limit_size_of_match_param(limits_.get(), kMaxStack);
    onig_set_retry_limit_in_match_of_match_param(limits_.get(), kMaxRetries);
    // Text without a match takes at least one step per byte.
    onig_set_retry_limit_in_search_of_match_param(limits_.get(),
                                                  std::max<unsigned long>(kMaxRetries, 8 * text_size));
  }

  // The first match that begins at `from` or later.
  bool find(OnigRegexType* regex, std::string_view text, std::size_t from) {
    onig_region_clear(region_.get());
    const int found = onig_search_with_param(regex, start_of(text), end_of(text), start_of(text) + from,
                                             end_of(text), region_.get(), ONIG_OPTION_NONE, limits_.get());
    if (found == ONIG_MISMATCH) return false;
    if (found < 0)
      throw UserError(
          "split pattern: expected a short search, got stopped by its bounds in {} bytes of text ({})",
          text.size(), message_of(found));
    return true;
  }

  std::size_t begin() const { return static_cast<std::size_t>(region_->beg[0]); }
  std::size_t end() const { return static_cast<std::size_t>(region_->end[0]); }

 private:
  static void free_region(OnigRegion* region) { onig_region_free(region, 1); }

  std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region_;
  std::unique_ptr<OnigMatchParam, void (*)(OnigMatchParam*)> limits_;
};

}  // namespace

SplitPattern::SplitPattern() : regex_(nullptr, onig_free) {}

SplitPattern SplitPattern::regex(std::string_view expression, Engine engine) {
  if (expression.size() > kMaxPattern)
    throw UserError("expected a regular expression of at most {} bytes, got {}", kMaxPattern,
                    expression.size());
  SplitPattern pattern;
  if (engine == Engine::fastest) pattern.known_ = known_pattern(expression);
  if (pattern.known_ != KnownPattern::none) return pattern;
  initialize_once();
  const std::string ours = with_our_categories(expression);
  OnigRegexType* regex = nullptr;
  OnigErrorInfo info = {};
  const int code = onig_new(&regex, start_of(ours), end_of(ours), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                            ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL)
    throw UserError("expected a regular expression, got {} ({})", expression, message_of(code, &info));
  pattern.regex_.reset(regex);
  return pattern;
}

SplitPattern SplitPattern::plain(std::string_view words) {
  if (words.empty() || words.size() > kMaxPattern)
    throw UserError("expected a string of 1 to {} bytes, got {}", kMaxPattern, words.size());
  SplitPattern pattern;
  pattern.words_ = words;
  return pattern;
}

SplitPattern SplitPattern::read(const Json& pattern) {
  if (pattern.is_object() && pattern.size() == 1) {
    const Json& expression = formats::value_or_null(pattern, "Regex");
    if (expression.is_string()) return regex(expression.get_ref<const std::string&>());
    const Json& words = formats::value_or_null(pattern, "String");
    if (words.is_string()) return plain(words.get_ref<const std::string&>());
  }
  throw UserError("expected {{\"Regex\": …}} or {{\"String\": …}}, got {}", pattern.dump());
}

void SplitPattern::cut(std::string_view text, std::vector<Cut>& cuts) const {
  if (known_ != KnownPattern::none) {
    const std::uint8_t* classes = char_classes();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = word_end(known_, classes, text, at);
      cuts.push_back({at, end, true});
      at = end;
    }
  } else if (!words_.empty()) {
    cut_plain(text, cuts);
  } else {
    cut_regex(text, cuts);
  }
}

void SplitPattern::cut_plain(std::string_view text, std::vector<Cut>& cuts) const {
  std::size_t covered = 0;
  for (std::size_t at = text.find(words_); at != std::string_view::npos; at = text.find(words_, covered)) {
    if (at > covered) cuts.push_back({covered, at, false});
    covered = at + words_.size();
    cuts.push_back({at, covered, true});
  }
  if (covered < text.size()) cuts.push_back({covered, text.size(), false});
}

void SplitPattern::cut_regex(std::string_view text, std::vector<Cut>& cuts) const {
  Search search(text.size());
  const double most_seconds = kMaxSeconds + kMaxSecondsPerByte * static_cast<double>(text.size());
  const double start = thread_seconds();
  std::size_t searches = 0;
  std::size_t covered = 0;
  std::optional<std::size_t> last_end;
  for (std::size_t from = 0; from <= text.size() && search.find(regex_.get(), text, from);) {
    if (++searches % kSearchesBetweenLooks == 0) {
      check_interrupt();
      if (thread_seconds() - start > most_seconds)
        throw UserError(
            "split pattern: expected a search of at most {:.0f} s of processor time for {} bytes, got more",
            most_seconds, text.size());
    }
    const auto [begin, end] = std::pair(search.begin(), search.end());
    if (begin == end &&
        last_end == end) {  // an empty match right after the last one: search from the next character
      from += from < text.size() ? utf8_length(text[from]) : 1;
      continue;
    }
    if (begin < covered || end < begin)  // \K can move the beginning of a match
      throw UserError("split pattern: expected matches that follow one another, got one from byte {} to {}",
                      begin, end);
    if (begin > covered) cuts.push_back({covered, begin, false});
    cuts.push_back({begin, end, true});
    covered = end;
    from = end;
    last_end = end;
  }
  if (covered < text.size()) cuts.push_back({covered, text.size(), false});
}

}  // namespace routeopd::tokenizer
