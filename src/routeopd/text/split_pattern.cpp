//
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/text/split_pattern.h"

#include <oniguruma.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/text/utf8.h"

namespace routeopd::text {
namespace {

constexpr std::size_t kMaxPattern = 1U << 16U;
// A match in a run of n spaces or letters takes some n steps back and n places on the stack (40 bytes each).
constexpr unsigned long kMaxRetries = 10'000'000;
constexpr unsigned kMaxStack = 1U << 24U;

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

void initialize_once() {
  static std::once_flag done;
  std::call_once(done, [] {
    OnigEncoding encoding = ONIG_ENCODING_UTF8;
    onig_initialize(&encoding, 1);
  });
}

// The bounds and the answer of one search.
class Search {
 public:
  explicit Search(std::size_t text_size)
      : region_(onig_region_new(), free_region), limits_(onig_new_match_param(), onig_free_match_param) {
    ROUTEOPD_INVARIANT(region_ != nullptr && limits_ != nullptr);
    onig_initialize_match_param(limits_.get());
    onig_set_match_stack_limit_size_of_match_param(limits_.get(), kMaxStack);
    onig_set_retry_limit_in_match_of_match_param(limits_.get(), kMaxRetries);
    // Text without a match costs at least a step a byte.
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

SplitPattern::SplitPattern(std::string_view pattern) : regex_(nullptr, onig_free) {
  if (pattern.size() > kMaxPattern)
    throw UserError("expected a regular expression of at most {} bytes, got {}", kMaxPattern, pattern.size());
  initialize_once();
  OnigRegexType* regex = nullptr;
  OnigErrorInfo info = {};
  const int code = onig_new(&regex, start_of(pattern), end_of(pattern), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                            ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL)
    throw UserError("expected a regular expression, got {} ({})", pattern, message_of(code, &info));
  regex_.reset(regex);
}

void SplitPattern::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  Search search(text.size());
  std::size_t covered = 0;
  std::optional<std::size_t> last_end;
  for (std::size_t from = 0; from <= text.size() && search.find(regex_.get(), text, from);) {
    const auto [begin, end] = std::pair(search.begin(), search.end());
    if (begin == end &&
        last_end == end) {  // an empty match right behind the last one: search one character on
      from += from < text.size() ? utf8_step(text, from).length : 1;
      continue;
    }
    if (begin < covered || end < begin)  // \K can move the beginning of a match about
      throw UserError("split pattern: expected matches that follow one another, got one from byte {} to {}",
                      begin, end);
    if (begin > covered) pieces.push_back(text.substr(covered, begin - covered));
    if (end > begin) pieces.push_back(text.substr(begin, end - begin));
    covered = end;
    from = end;
    last_end = end;
  }
  if (covered < text.size()) pieces.push_back(text.substr(covered));
}

}  // namespace routeopd::text
