// SPDX-License-Identifier: Apache-2.0
#include "routeopd/base/output_place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "routeopd/base/die_at_write.h"
#include "routeopd/base/error.h"

namespace routeopd {
namespace {

namespace fs = std::filesystem;

// The dotted name of the first field that differs; empty: none.
std::string difference(const Json& mine, const Json& theirs, const std::string& name) {
  if (mine == theirs) return "";
  if (!mine.is_object() || !theirs.is_object()) return name;
  for (const Json* side : {&mine, &theirs}) {
    for (const auto& item : side->items()) {
      const std::string field = name.empty() ? item.key() : fmt::format("{}.{}", name, item.key());
      const std::string found =
          difference(mine.value(item.key(), Json()), theirs.value(item.key(), Json()), field);
      if (!found.empty()) return found;
    }
  }
  return "";
}

[[noreturn]] void refuse(const OutputPlace& place, const std::string& why) {
  throw UserError("{}: {}; run that command to its end, remove the file and {}, or name another file",
                  place.rows().string(), why, place.command().filename().string());
}

// The path of rows, once it is certain that those in it are of this command.
const fs::path& rows_of(const OutputPlace& place, const Json& command) {
  const Json mine = Json::parse(command.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!place.has_rows()) {
    write_file(place.command(), mine.dump(2) + "\n");
    return place.rows();
  }
  std::ifstream file(place.command(), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const Json theirs = Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!theirs.is_object())
    refuse(place, fmt::format("has rows, and {} does not say of which command",
                              place.command().filename().string()));
  const std::string field = difference(mine, theirs, "");
  if (!field.empty())
    refuse(place, fmt::format("has rows of a command that was stopped, and whose {} is another", field));
  if (const auto stream = mine.find("in"); stream != mine.end() && *stream == "-")
    refuse(place, "has rows of a command that was stopped, and what a stream brings cannot be compared");
  return place.rows();
}

}  // namespace

OutputPlace::OutputPlace(fs::path path, bool overwrite) : path_(replaceable_file(std::move(path))) {
  check_folder_of(path_);
  rows_ = command_ = path_;
  rows_ += ".partial";
  command_ += ".partial.json";
  lock();
  // Seen under the lock: another process may have just made it.
  std::error_code unreadable;
  if (!overwrite && fs::exists(path_, unreadable)) {
    leave();
    throw UserError("{}: exists already; nothing was overwritten, choose another name or say --overwrite",
                    path_.string());
  }
  const fs::path folder = fs::absolute(path_).parent_path();
  for (const fs::path& name : {path_, rows_, command_}) remove_abandoned(folder, name.filename().string());
}

void OutputPlace::lock() {
  for (;;) {
    before_write();
    descriptor_ = ::open(rows_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (descriptor_ < 0)
      throw UserError("{}: cannot be written ({}: {})", path_.string(), rows_.filename().string(),
                      std::strerror(errno));
    // Another error comes from a file system without locks: the place is then used without one.
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(descriptor_);
      throw UserError("{}: another process is writing it; wait for it, or choose another name",
                      path_.string());
    }
    if (is_at(descriptor_, rows_)) return;
    ::close(descriptor_);  // its last holder gave it the name of the file, or removed it
  }
}

bool OutputPlace::has_rows() const {
  struct stat status = {};
  return ::fstat(descriptor_, &status) == 0 && status.st_size > 0;
}

void OutputPlace::refuse_rows() const {
  if (has_rows()) refuse(*this, "has rows of a command that was stopped");
}

// The command goes first: without it, rows are not taken for those of any.
void OutputPlace::leave() {
  std::error_code ignored;
  if (!has_rows() && is_at(descriptor_, rows_)) {
    before_write();
    fs::remove(command_, ignored);
    before_write();
    fs::remove(rows_, ignored);
  }
  ::close(descriptor_);
}

OutputPlace::~OutputPlace() {
  leave();
}

OutputFile::OutputFile(const fs::path& path, bool overwrite)
    : place_(path, overwrite), file_((place_.refuse_rows(), place_.path())) {}

RowFile::RowFile(OutputPlace& place, const Json& command)
    : place_(place), lines_(rows_of(place, command), LineFile::Found::kKeep) {}

void RowFile::finish(std::span<const std::size_t> places) {
  lines_.finish(places);
  rename_file(place_.rows(), place_.path());
  remove_file(place_.command());
}

}  // namespace routeopd
