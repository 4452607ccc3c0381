// What targets share: inputs that are several files, and a directory of this process to lay them in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace routeopd::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The parts of an input of texts, cut at 0xFF, which no UTF-8 has.
inline std::vector<std::string_view> parts_of(std::string_view input, std::string_view cut = "\xFF") {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0; from <= input.size();) {
    const std::size_t end = std::min(input.find(cut, from), input.size());
    parts.push_back(input.substr(from, end - from));
    from = end + cut.size();
  }
  return parts;
}

inline std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

inline constexpr std::string_view kFileCut = "\xFF|\xFF";

// A directory below TMPDIR, which goes with the process.
class Scratch {
 public:
  explicit Scratch(const char* name)
      : path_(std::filesystem::temp_directory_path() /
              ("routeopd-fuzz-" + std::string(name) + "-" + std::to_string(::getpid()))) {
    clear();
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void clear() const {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }

  std::string write(const std::filesystem::path& name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (!file) {
      std::filesystem::create_directories(path.parent_path());
      file.open(path, std::ios::binary | std::ios::trunc);
    }
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    require(static_cast<bool>(file));
    return path.string();
  }

  // Lays out an input of files, some of which may be binary, cut at kFileCut: the first byte of each part
  // is the file's number in `names`, as a letter from 'a'; the rest is what it holds. "$DIR" in it stands
  // for this directory.
  void lay(std::string_view input, std::span<const char* const> names) const {
    clear();
    for (const std::string_view part : parts_of(input, kFileCut)) {
      if (part.empty()) continue;
      const auto number = static_cast<std::size_t>(static_cast<unsigned char>(part[0])) + 256 - 'a';
      write(names[number % 256 % names.size()],
            replaced(std::string(part.substr(1)), "$DIR", path_.string()));
    }
  }

 private:
  std::filesystem::path path_;
};

}  // namespace routeopd::fuzz
