// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>

#include "routeopd/base/bus_error.h"
#include "routeopd/base/files.h"
#include "routeopd/formats/json_file.h"

namespace routeopd::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are read as they stand");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr std::string_view kMetadata = "__metadata__";

struct TypeRow {
  TensorType type;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<TypeRow, 6> kTypes = {{{TensorType::kF32, "F32", 4},
                                            {TensorType::kF16, "F16", 2},
                                            {TensorType::kBF16, "BF16", 2},
                                            {TensorType::kF64, "F64", 8},
                                            {TensorType::kI32, "I32", 4},
                                            {TensorType::kI64, "I64", 8}}};

const TypeRow& row_of(TensorType type) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [type](const TypeRow& row) { return row.type == type; });
  ROUTEOPD_INVARIANT(found != kTypes.end());
  return *found;
}

TensorType tensor_type_of(const Json& info) {
  std::string known;
  for (const TypeRow& row : kTypes) {
    if (info == row.name) return row.type;
    known += (known.empty() ? "" : " | ") + std::string(row.name);
  }
  throw UserError("dtype: expected {}, got {}", known, shown(info));
}

// Bytes of a tensor, or none where they do not fit 63 bits. Dimensions of zero are skipped in the check, so
// that strides computed from the shape cannot overflow either.
std::optional<std::uint64_t> bytes_of(const std::vector<std::int64_t>& shape, TensorType type) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    empty |= dimension == 0;
    if (dimension != 0 && __builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::uint64_t whole_of(const Json& value, std::string_view what) {
  // To the parser, -1, 1.5, 1e3 and numbers past 2^64 are not unsigned.
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    throw UserError("{}: expected a whole number from 0 to 2^63 - 1, got {}", what, shown(value));
  return value.get<std::uint64_t>();
}

const Json& member(const Json& info, const char* key, bool array) {
  const auto found = info.find(key);
  if (found == info.end()) throw UserError("expected {}, got none", key);
  if (array && !found->is_array()) throw UserError("{}: expected a list, got {}", key, found->type_name());
  return *found;
}

// One entry of the header, its bounds checked against the bytes that follow the header.
TensorView tensor_of(const std::string& name, const Json& info, std::span<const std::byte> data) {
  if (!info.is_object()) throw UserError("expected an object, got {}", info.type_name());
  TensorView tensor;
  tensor.name = name;
  tensor.type = tensor_type_of(member(info, "dtype", false));
  for (const Json& dimension : member(info, "shape", true))
    tensor.shape.push_back(static_cast<std::int64_t>(whole_of(dimension, "shape")));
  const Json& offsets = member(info, "data_offsets", true);
  if (offsets.size() != 2)
    throw UserError("data_offsets: expected [begin, end], got {} numbers", offsets.size());
  const std::uint64_t begin = whole_of(offsets[0], "data_offsets");
  const std::uint64_t end = whole_of(offsets[1], "data_offsets");
  if (begin > end || end > data.size())
    throw UserError("data_offsets: expected begin <= end <= {}, got [{}, {}]; is the file cut off?",
                    data.size(), begin, end);
  const std::optional<std::uint64_t> bytes = bytes_of(tensor.shape, tensor.type);
  if (!bytes) throw UserError("shape: expected fewer than 2^63 bytes, got {}", info["shape"].dump());
  if (*bytes != end - begin)
    throw UserError("expected {} bytes for {} of shape {}, got {}", *bytes, name_of(tensor.type),
                    info["shape"].dump(), end - begin);
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

std::map<std::string, std::string> metadata_of(const Json& entry) {
  if (!entry.is_object()) throw UserError("expected an object of strings, got {}", entry.type_name());
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw UserError("{}: expected a string, got {}", key, value.type_name());
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// Tensors in order of offset must cover the data end to end.
void check_cover(const std::vector<TensorView>& tensors, std::span<const std::byte> data) {
  std::size_t covered = 0;
  for (const TensorView& tensor : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    if (begin != covered)
      throw UserError(
          "{}: expected data to begin at byte {}, got {}, {}", tensor.name, covered, begin,
          begin < covered ? "so that it overlaps another tensor's" : "so that a hole is left before it");
    covered += tensor.bytes.size();
  }
  if (covered != data.size())
    throw UserError("expected the last tensor to end with the file at byte {}, got {}", data.size(), covered);
}

void refuse_pickle(const std::filesystem::path& path) {
  for (const char* suffix : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}) {
    if (path.extension() == suffix)
      throw UserError(
          "{}: expected a safetensors file, got the suffix of a pickle, which can run code and is never "
          "opened; "
          "try converting it with save_pretrained(safe_serialization=True)",
          path.string());
  }
}

}  // namespace

std::size_t size_of(TensorType type) {
  return row_of(type).size;
}

std::string name_of(TensorType type) {
  return std::string(row_of(type).name);
}

SafetensorsIndex read_safetensors(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes)
    throw UserError("expected at least {} bytes, got {}; is the file cut off?", kLengthBytes, file.size());
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  const std::uint64_t most = std::min<std::uint64_t>(kMaxHeader, file.size() - kLengthBytes);
  if (length > most)
    throw UserError("expected a header of at most {} bytes, got {}; is it a safetensors file, and whole?",
                    most, length);
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!header.starts_with('{'))
    throw UserError("expected a header that starts with {}, got something else", '{');
  const std::span<const std::byte> data = file.subspan(kLengthBytes + length);
  const Json entries = parse_json_object(header, "header");
  SafetensorsIndex index;
  for (const auto& entry : entries.items()) {
    naming(entry.key(), [&] {
      if (entry.key() == kMetadata) {
        index.metadata = metadata_of(entry.value());
      } else {
        index.tensors.push_back(tensor_of(entry.key(), entry.value(), data));
      }
    });
  }
  // A tensor without bytes stands before the one that begins where it does.
  std::sort(index.tensors.begin(), index.tensors.end(), [](const TensorView& left, const TensorView& right) {
    return std::tuple(left.bytes.data(), left.bytes.size(), std::string_view(left.name)) <
           std::tuple(right.bytes.data(), right.bytes.size(), std::string_view(right.name));
  });
  check_cover(index.tensors, data);
  return index;
}

// A regular file's bytes, read-only, for the life of the object. A file that another process cuts short
// meanwhile ends ours (base/bus_error.h): our own writers never do that, they rename (base/files.h).
class MappedFile {
 public:
  // Throws UserError, without the path, when there is no regular file that can be read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile() {
    name_.reset();
    if (start_ != nullptr) ::munmap(start_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(start_), size_}; }

 private:
  void* start_ = nullptr;  // null for an empty file, which cannot be mapped
  std::size_t size_ = 0;
  std::optional<NamedMapping> name_;
};

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not hold us
  if (descriptor < 0) throw UserError("cannot be read ({}); is the path right?", std::strerror(errno));
  struct stat status = {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  size_ = regular ? static_cast<std::size_t>(status.st_size) : 0;
  if (size_ > 0) start_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);
  if (!regular) throw UserError("is not a regular file; is the path right?");
  if (start_ == MAP_FAILED) throw UserError("cannot be mapped into memory ({})", std::strerror(reason));
  name_.emplace(start_, size_, path.string());
}

Safetensors::Safetensors(const std::filesystem::path& path) : path_(path) {
  refuse_pickle(path);
  naming(path.string(), [&] {
    mapping_ = std::make_unique<MappedFile>(path);
    index_ = read_safetensors(mapping_->bytes());
  });
}

Safetensors::~Safetensors() = default;

const TensorView* Safetensors::find(const std::string& name) const {
  const auto found = std::find_if(tensors().begin(), tensors().end(),
                                  [&](const TensorView& tensor) { return tensor.name == name; });
  return found == tensors().end() ? nullptr : &*found;
}

namespace {

// The header's length and the header, of tensors in the order given. Errors begin with `where`.
std::string header_of(const std::vector<TensorView>& tensors,
                      const std::map<std::string, std::string>& metadata, const std::string& where) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  if (!metadata.empty()) entries[std::string(kMetadata)] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == kMetadata || entries.contains(tensor.name))
      throw UserError("{}: expected each tensor name once and none called {}, got {}", where, kMetadata,
                      tensor.name);
    ROUTEOPD_INVARIANT(bytes_of(tensor.shape, tensor.type) == tensor.bytes.size());
    entries[tensor.name] = {{"dtype", name_of(tensor.type)},
                            {"shape", tensor.shape},
                            {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string header;
  try {
    header = entries.dump();
  } catch (const nlohmann::ordered_json::exception&) {
    throw UserError("{}: expected names and metadata in UTF-8, got other bytes", where);
  }
  header.resize((header.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  if (header.size() > kMaxHeader)
    throw UserError("{}: expected a header of at most {} bytes, got {}; try fewer tensors per file", where,
                    kMaxHeader, header.size());
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + header;
}

std::string_view text_of(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata, path.string());
  AtomicFile file(path);
  file.write(header);
  for (const TensorView& tensor : tensors) file.write(text_of(tensor));
  file.commit();
}

std::string safetensors_bytes(const std::vector<TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::string bytes = header_of(tensors, metadata, "safetensors");
  std::size_t all = bytes.size();
  for (const TensorView& tensor : tensors) all += tensor.bytes.size();
  bytes.reserve(all);
  for (const TensorView& tensor : tensors) bytes += text_of(tensor);
  return bytes;
}

}  // namespace routeopd::formats
