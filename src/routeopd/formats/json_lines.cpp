// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/json_lines.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iostream>
#include <system_error>

#include "routeopd/base/interrupt.h"
#include "routeopd/formats/json_file.h"
#include "routeopd/formats/json_guard.h"

namespace routeopd::formats {
namespace {

// "parse error at line 1, column 8: …" without the line, which where() tells.
std::string reason_in_line(const Json::exception& error) {
  std::string reason = parse_failure(error);
  if (const auto at = reason.find("line 1, "); at != std::string::npos) reason.erase(at, 8);
  return reason;
}

constexpr std::size_t kMostLineBytes = std::size_t{256} << 20;

// The next line without its end, into `line`; false where there is none. Throws UserError for one that is
// longer.
bool read_line(std::istream& in, std::string& line) {
  std::array<char, 1 << 14> part;
  line.clear();
  for (;;) {
    in.getline(part.data(), std::ssize(part));
    const auto count = static_cast<std::size_t>(in.gcount());
    if (in.bad()) return false;
    const bool ends = !in.eof() && !in.fail();  // by a line feed, which is counted and not kept
    line.append(part.data(), ends ? count - 1 : count);
    if (ends || in.eof()) return ends || !line.empty();
    in.clear();  // the part was full
    if (line.size() > kMostLineBytes)
      throw UserError("expected at most {} bytes in a line, got more", kMostLineBytes);
  }
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
  for (;;) {
    ++line_;
    broken_ = true;  // for a line that is too long, which throws: its rest would be read as lines
    const bool more = naming(where(), [&] { return read_line(*in_, text_); });
    broken_ = in_->bad();
    if (in_->eof()) check_interrupt();  // a signal while a stream is waited for looks like its end
    if (!more) break;
    bytes_read_ += static_cast<std::int64_t>(text_.size()) + 1;
    if (text_.find_first_not_of(" \t\r") == std::string::npos) continue;
    // To the parser a zero byte is the end of the text, whatever follows it.
    if (text_.find('\0') != std::string::npos)
      throw UserError("{}: expected one JSON object per line, got a zero byte in it", where());
    Json value;
    try {
      JsonGuard guard;
      value = Json::parse(text_, std::ref(guard));
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
  --line_;
  if (in_->bad()) throw UserError("{}: reading failed", where());
  return std::nullopt;
}

std::string JsonLines::where() const {
  return fmt::format("{}:{}", path_, line_);
}

}  // namespace routeopd::formats
