// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/json_lines.h"

#include <filesystem>
#include <iostream>
#include <system_error>

#include "routeopd/formats/json_file.h"

namespace routeopd::formats {
namespace {

// "parse error at line 1, column 8: …" without the line, which where() tells.
std::string reason_in_line(const Json::exception& error) {
  std::string reason = parse_failure(error);
  if (const auto at = reason.find("line 1, "); at != std::string::npos) reason.erase(at, 8);
  return reason;
}

bool check_depth(int depth, Json::parse_event_t, const Json&) {
  if (depth > kMaxJsonDepth) throw UserError("expected at most {} nested levels, got more", kMaxJsonDepth);
  return true;
}

}  // namespace

JsonLines::JsonLines(const std::string& path) : path_(path), in_(&file_) {
  if (path == "-") {
    path_ = "standard input";
    in_ = &std::cin;
    return;
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw UserError("{}: is a directory, expected a JSONL file", path);
  file_.open(path, std::ios::binary);
  if (!file_) throw UserError("{}: cannot be read; is the path right?", path);
  if (std::filesystem::is_regular_file(path, error))
    bytes_total_ = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
}

std::optional<Json> JsonLines::next() {
  while (std::getline(*in_, text_)) {
    ++line_;
    bytes_read_ += static_cast<std::int64_t>(text_.size()) + 1;
    if (text_.find_first_not_of(" \t\r") == std::string::npos) continue;
    // To the parser a zero byte is the end of the text, whatever follows it.
    if (text_.find('\0') != std::string::npos)
      throw UserError("{}: expected one JSON object per line, got a zero byte in it", where());
    Json value;
    try {
      value = Json::parse(text_, check_depth);
    } catch (const UserError& error) {
      throw UserError("{}: {}", where(), error.what());
    } catch (const Json::exception& error) {
      const bool cut = in_->eof() && text_.back() != '}';
      throw UserError("{}: expected one JSON object per line, got {} ({})", where(),
                      cut ? "a line that ends too early" : "something else", reason_in_line(error));
    }
    if (!value.is_object()) throw UserError("{}: expected a JSON object, got {}", where(), value.type_name());
    return value;
  }
  if (in_->bad()) throw UserError("{}: reading failed", where());
  return std::nullopt;
}

std::string JsonLines::where() const {
  return fmt::format("{}:{}", path_, line_);
}

}  // namespace routeopd::formats
