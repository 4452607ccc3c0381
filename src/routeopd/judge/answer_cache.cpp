// SPDX-License-Identifier: Apache-2.0
#include "routeopd/judge/answer_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "routeopd/formats/json_lines.h"

namespace routeopd::judge {
namespace {

// How each of our lines begins: keys are in alphabetical order.
constexpr std::string_view kLineBegins = "{\"completion_tokens\":";

template <class Value>
Value field(const Json& line, const char* name, const std::string& where) {
  const auto found = line.find(name);
  const bool fits = found != line.end() &&
                    (std::is_same_v<Value, std::string> ? found->is_string() : found->is_number_integer());
  if (!fits)
    throw UserError("{}: {} is missing or of another type; remove the line to ask again", where, name);
  return found->get<Value>();
}

}  // namespace

AnswerCache::AnswerCache(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot be written");
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      throw UserError("{}: another process uses it; wait for it, or choose another file", path_.string());
    const std::int64_t whole = whole_lines();
    formats::JsonLines lines(path_.string());
    while (lines.bytes_read() < whole) {
      const auto line = lines.next();
      if (!line) break;
      const std::string where = lines.where();
      answers_[field<std::string>(*line, "key", where)] = {
          field<std::string>(*line, "content", where), field<std::string>(*line, "finish", where),
          field<std::int64_t>(*line, "prompt_tokens", where),
          field<std::int64_t>(*line, "completion_tokens", where)};
    }
    // Only now, since a file that is not ours must stay as it was.
    lines_.emplace(path_, LineFile::Found::kKeep);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AnswerCache::~AnswerCache() {
  ::fsync(descriptor_);  // a failure here could not be reported any more
  ::close(descriptor_);
}

std::int64_t AnswerCache::whole_lines() const {
  std::array<char, 4096> block = {};
  const ::off_t size = ::lseek(descriptor_, 0, SEEK_END);
  if (size < 0) fail("cannot be read");
  ::off_t end = size;  // of the last whole line
  while (end > 0) {
    const ::off_t start = std::max<::off_t>(0, end - static_cast<::off_t>(block.size()));
    const auto wanted = static_cast<std::size_t>(end - start);
    if (::pread(descriptor_, block.data(), wanted, start) != static_cast<::ssize_t>(wanted))
      fail("cannot be read");
    const auto feed =
        std::find(block.rbegin() + static_cast<std::ptrdiff_t>(block.size() - wanted), block.rend(), '\n');
    if (feed != block.rend()) {
      end = start + static_cast<::off_t>(block.rend() - feed);
      break;
    }
    end = start;
  }
  // What follows the last line feed is the beginning of an answer, or the file is not ours.
  std::string torn(std::min<std::size_t>(static_cast<std::size_t>(size - end), kLineBegins.size()), ' ');
  if (::pread(descriptor_, torn.data(), torn.size(), end) != static_cast<::ssize_t>(torn.size()))
    fail("cannot be read");
  if (!kLineBegins.starts_with(torn))
    throw UserError("{}: its last line is no answer of a judge; name a file that `judge` wrote, or a new one",
                    path_.string());
  return end;
}

std::optional<ChatAnswer> AnswerCache::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(key);
  return found == answers_.end() ? std::nullopt : std::optional(found->second);
}

void AnswerCache::add(const std::string& key, const std::string& model, const ChatAnswer& answer) {
  const Json line = {{"key", key},
                     {"model", model},
                     {"content", answer.content},
                     {"finish", answer.finish},
                     {"prompt_tokens", answer.prompt_tokens},
                     {"completion_tokens", answer.completion_tokens}};
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::lock_guard lock(mutex_);
  lines_->write(text);
  answers_[key] = answer;
}

std::size_t AnswerCache::size() const {
  const std::lock_guard lock(mutex_);
  return answers_.size();
}

void AnswerCache::fail(const char* what) const {
  throw UserError("{}: {} ({})", path_.string(), what, std::strerror(errno));
}

}  // namespace routeopd::judge
