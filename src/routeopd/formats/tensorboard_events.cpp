// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/tensorboard_events.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "routeopd/base/die_at_write.h"
#include "routeopd/base/error.h"
#include "routeopd/base/hashes.h"

namespace routeopd::formats {
namespace {

namespace fs = std::filesystem;

// The low byte first, whatever the machine's order is.
template <class Unsigned>
void put_fixed(std::string& out, Unsigned bits) {
  for (std::size_t i = 0; i < sizeof(bits); ++i) out += static_cast<char>(bits >> (8 * i) & 0xff);
}

// Protocol buffers, as much of them as scalars need. A message is its fields in the order of their numbers: a
// key that holds number and kind, then the value. Fields that are zero are skipped, except in a oneof, where
// presence is the information.
constexpr unsigned kVarint = 0, kFixed64 = 1, kLengthAndBytes = 2, kFixed32 = 5;

// Seven bits per byte, the low ones first; the high bit says that more follow.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, unsigned field, unsigned kind) {
  put_varint(out, field << 3 | kind);
}

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_key(out, field, kLengthAndBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// message Event      { double wall_time = 1; int64 step = 2;
//                  oneof what { string file_version = 3; Summary summary = 5; SessionLog session_log = 7; } }
// message Summary    { repeated Value value = 1; }
// message Value      { string tag = 1; oneof value { float simple_value = 2; } }
// message SessionLog { enum SessionStatus { START = 1; } SessionStatus status = 1; }
constexpr unsigned kFileVersion = 3, kSummary = 5, kSessionLog = 7;

std::string event(double wall_time, std::int64_t step, unsigned what, std::string_view content) {
  std::string out;
  if (const auto bits = std::bit_cast<std::uint64_t>(wall_time); bits != 0) {
    put_key(out, 1, kFixed64);
    put_fixed(out, bits);
  }
  if (step != 0) {
    put_key(out, 2, kVarint);
    put_varint(out, static_cast<std::uint64_t>(step));
  }
  put_bytes(out, what, content);
  return out;
}

std::string summary_value(const TaggedValue& tagged) {
  // Beyond the range of single precision lie its infinities.
  static_assert(std::numeric_limits<float>::is_iec559);
  std::string out;
  put_bytes(out, 1, tagged.tag);
  put_key(out, 2, kFixed32);
  put_fixed(out, std::bit_cast<std::uint32_t>(static_cast<float>(tagged.value)));
  return out;
}

// A record's data may hold records with checksums of their own: the format rotates and offsets each checksum,
// so that a checksum over a checksum does not degenerate.
std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

std::string record(std::string_view data) {
  std::string out;
  put_fixed(out, std::uint64_t{data.size()});
  put_fixed(out, masked_crc32c(out));
  out += data;
  put_fixed(out, masked_crc32c(data));
  return out;
}

}  // namespace

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  // The last byte stays zero: a truncated name may come without its terminator.
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

TensorboardEvents::TensorboardEvents(const fs::path& directory, std::function<double()> now,
                                     const std::string& host)
    : now_(std::move(now)) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) throw UserError("{}: cannot be made ({})", directory.string(), failed.message());
  const double seconds = now_();
  static std::atomic<std::int64_t> count = 0;
  do {  // another container may have a process of our number: its file is not touched
    path_ = directory / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<std::int64_t>(seconds),
                                    host, ::getpid(), count++);
    before_write();
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) throw UserError("{}: cannot be made ({})", path_.string(), std::strerror(errno));
  try {
    append(record(event(seconds, 0, kFileVersion, "brain.Event:2")));
  } catch (...) {
    ::close(descriptor_);
    ::unlink(path_.c_str());
    throw;
  }
}

TensorboardEvents::~TensorboardEvents() {
  ::close(descriptor_);
}

void TensorboardEvents::scalars(std::int64_t step, std::span<const TaggedValue> values) {
  if (values.empty()) return;
  std::string summary;
  for (const TaggedValue& value : values) {
    ROUTEOPD_INVARIANT(!value.tag.empty());
    put_bytes(summary, 1, summary_value(value));
  }
  append(record(event(now_(), step, kSummary, summary)));
}

void TensorboardEvents::scalar(std::string_view tag, std::int64_t step, double value) {
  const TaggedValue tagged = {tag, value};
  scalars(step, {&tagged, 1});
}

void TensorboardEvents::restart(std::int64_t first_step) {
  std::string start;
  put_key(start, 1, kVarint);
  put_varint(start, 1);
  // TensorBoard's server takes the first START of a run for its beginning and drops earlier values at later
  // ones only; EventAccumulator drops them at each. Two in a row are a restart to both.
  const std::string once = record(event(now_(), first_step, kSessionLog, start));
  append(once + once);
}

void TensorboardEvents::append(std::string_view records) {
  before_write([&] { (void)!::pwrite(descriptor_, records.data(), records.size() / 2, size_); });
  for (std::size_t done = 0; done < records.size();) {
    const ::ssize_t count = ::pwrite(descriptor_, records.data() + done, records.size() - done,
                                     size_ + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      // Readers stop for good at a truncated record that others follow.
      if (::ftruncate(descriptor_, size_) != 0)
        throw UserError("{}: cannot be written, and its last record is not whole; is the disk full?",
                        path_.string());
      throw UserError("{}: cannot be written; is the disk full?", path_.string());
    }
    done += static_cast<std::size_t>(count);
  }
  size_ += static_cast<std::int64_t>(records.size());
}

}  // namespace routeopd::formats
