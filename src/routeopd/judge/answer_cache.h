// Answers of a judge on disk, so that nothing is asked twice: JSONL, one line per answer.
//
//   {"key", "model", "content", "finish", "prompt_tokens", "completion_tokens"}
//
// The key is the SHA-256 of a request's body, which holds the model, the messages and every setting; the
// server's address is not part of it, since the same model may be served elsewhere later. A process that is
// killed leaves at most one incomplete line, which is removed when the file is opened again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "routeopd/base/line_file.h"
#include "routeopd/judge/chat.h"

namespace routeopd::judge {

class AnswerCache {
 public:
  // Opens or creates the file. Throws UserError when another
  // process has it open, and for a line that is no answer.
  explicit AnswerCache(std::filesystem::path path);
  ~AnswerCache();
  AnswerCache(const AnswerCache&) = delete;
  AnswerCache& operator=(const AnswerCache&) = delete;

  // Both may be called from any thread.
  std::optional<ChatAnswer> find(const std::string& key) const;
  // Throws UserError when the disk does not take the whole line, and then removes the part that it took.
  void add(const std::string& key, const std::string& model, const ChatAnswer& answer);

  std::size_t size() const;

 private:
  std::int64_t whole_lines() const;  // bytes up to the last line feed
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;  // holds the lock
  std::optional<LineFile> lines_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, ChatAnswer> answers_;
};

}  // namespace routeopd::judge
