// safetensors files: written and read back, and every way in which a file can break the format.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "routeopd/base/bus_error.h"
#include "testing_files.h"

namespace routeopd::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The bytes of a file with this header and `data` bytes after it.
std::string file_with(const std::string& header, std::size_t data = 0) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, 'x');
}

std::string error_of_bytes(const std::string& bytes) {
  const TemporaryDirectory directory;
  const auto path = directory.write("model.safetensors", bytes);
  return error_of([&] { Safetensors file(path); });
}

std::string error_of_header(const std::string& header, std::size_t data = 0) {
  return error_of_bytes(file_with(header, data));
}

const std::array<float, 6> kFloats = {1, -2, 3.5, 0, 1e-30F, 7};
const std::array<std::int64_t, 1> kScalar = {-9};

std::vector<TensorView> some_tensors() {
  return {{"z.weight", TensorType::kF32, {2, 3}, std::as_bytes(std::span(kFloats))},
          {"nothing", TensorType::kBF16, {0, 4}, {}},
          {"a \"quoted\" ü", TensorType::kI64, {}, std::as_bytes(std::span(kScalar))}};
}

TEST(Safetensors, ReadsBackWhatWasWritten) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model.safetensors";
  write_safetensors(path, some_tensors(), {{"format", "pt"}, {"step", "3"}});
  const Safetensors file(path);
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"step", "3"}}));
  ASSERT_EQ(file.tensors().size(), 3U);
  const TensorView* weight = file.find("z.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->type, TensorType::kF32);
  EXPECT_THAT(weight->shape, ElementsAre(2, 3));
  ASSERT_EQ(weight->bytes.size(), sizeof(kFloats));
  EXPECT_EQ(std::memcmp(weight->bytes.data(), kFloats.data(), sizeof(kFloats)), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(weight->bytes.data()) % 8, 0U) << "the header is padded";
  ASSERT_NE(file.find("nothing"), nullptr);
  EXPECT_THAT(file.find("nothing")->bytes, IsEmpty());
  EXPECT_THAT(file.find("a \"quoted\" ü")->shape, IsEmpty()) << "a scalar has rank 0";
  EXPECT_EQ(file.find("missing"), nullptr);
}

TEST(Safetensors, WritesTheBytesTheFormatAsksForInTheOrderGiven) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model.safetensors";
  write_safetensors(path, some_tensors());
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"z.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("nothing":{"dtype":"BF16","shape":[0,4],"data_offsets":[24,24]},)"
      R"("a \"quoted\" ü":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})";
  const std::string bytes = bytes_in(path);
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  EXPECT_EQ(bytes.size(), 8 + padded + 32);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]), padded);
  EXPECT_EQ(bytes.substr(8 + header.size(), padded - header.size()),
            std::string(padded - header.size(), ' '));
  write_safetensors(path, some_tensors());
  EXPECT_EQ(bytes_in(path), bytes);
}

TEST(Safetensors, AWriterRefusesNamesThatNoReaderCouldTellApart) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model.safetensors";
  const auto error_of_names = [&](const std::string& first, const std::string& second) {
    return error_of([&] {
      write_safetensors(path, {{first, TensorType::kF32, {0}, {}}, {second, TensorType::kF32, {0}, {}}});
    });
  };
  EXPECT_THAT(error_of_names("a", "a"), HasSubstr("expected each tensor name once"));
  EXPECT_THAT(error_of_names("a", "__metadata__"), HasSubstr("none called __metadata__"));
  EXPECT_THAT(error_of_names("a", "\xff"), HasSubstr("expected names and metadata in UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Safetensors, RefusesALengthThatIsNot) {
  EXPECT_THAT(error_of_bytes(""), HasSubstr("model.safetensors: expected at least 8 bytes, got 0"));
  EXPECT_THAT(error_of_bytes("1234567"), HasSubstr("expected at least 8 bytes, got 7"));
  EXPECT_THAT(error_of_bytes(std::string("\0\0\0\0\0\0\0\x80{}", 10)),
              HasSubstr("expected a header of at most 2 bytes, got 9223372036854775808"));
  EXPECT_THAT(error_of_bytes(std::string("\3\0\0\0\0\0\0\0{}", 10)), HasSubstr("at most 2 bytes, got 3"));
  EXPECT_THAT(error_of_bytes(std::string(8, '\0')), HasSubstr("expected a header that starts with {"));
  const TemporaryDirectory directory;
  const auto path = directory.write("big.safetensors", std::string("\1\xe1\xf5\5\0\0\0\0{}", 10));
  std::filesystem::resize_file(path, 100'000'200);  // sparse, so it costs nothing
  EXPECT_THAT(error_of([&] { Safetensors file(path); }), HasSubstr("at most 100000000 bytes, got 100000001"));
}

TEST(Safetensors, RefusesAHeaderThatIsNotOneJsonObject) {
  EXPECT_EQ(error_of_header("{}"), "");
  EXPECT_EQ(error_of_header("{}   "), "");
  EXPECT_THAT(error_of_header(" {}"), HasSubstr("starts with {"));
  EXPECT_THAT(error_of_header("[]"), HasSubstr("starts with {"));
  EXPECT_THAT(error_of_header("{} {}"), HasSubstr("header: expected JSON"));
  EXPECT_THAT(error_of_header(std::string("{}\0\0", 4)), HasSubstr("a zero byte"));
  EXPECT_THAT(error_of_header("{\"a\xff\":1}"), HasSubstr("header: expected JSON"));
  EXPECT_THAT(error_of_header("{\"a\":" + std::string(100'000, '[')), HasSubstr("at most 64 nested levels"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                              4),
              HasSubstr("expected each key once, got a twice"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("got dtype twice"));
}

TEST(Safetensors, RefusesMetadataThatIsNotStrings) {
  EXPECT_EQ(error_of_header(R"({"__metadata__":{}})"), "");
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"a":1}})"),
              HasSubstr("__metadata__: a: expected a string, got number"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":null})"), HasSubstr("__metadata__: expected an object"));
}

// A file of one tensor "t" with these fields and this much data.
std::string error_of_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets,
                            std::size_t data) {
  return error_of_header(
      R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
}

TEST(Safetensors, RefusesATensorThatIsNotWhatItSays) {
  EXPECT_EQ(error_of_tensor("\"F32\"", "[2]", "[0,8]", 8), "");
  EXPECT_EQ(error_of_tensor("\"F64\"", "[]", "[0,8]", 8), "");
  EXPECT_EQ(error_of_tensor("\"F64\"", "[0,7]", "[0,0]", 0), "");
  EXPECT_THAT(error_of_tensor("\"F8_E4M3\"", "[8]", "[0,8]", 8),
              HasSubstr("t: dtype: expected F32 | F16 | BF16 | F64 | I32 | I64, got F8_E4M3"));
  EXPECT_THAT(error_of_tensor("4", "[2]", "[0,8]", 8), HasSubstr("t: dtype: expected"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[3]", "[0,8]", 8),
              HasSubstr("t: expected 12 bytes for F32 of shape [3], got 8"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[-2]", "[0,8]", 8), HasSubstr("t: shape: expected a whole number"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[2.0]", "[0,8]", 8),
              HasSubstr("t: shape: expected a whole number"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "2", "[0,8]", 8), HasSubstr("t: shape: expected a list"));
  // 2^62 * 4 bytes is 2^64, which is 0 to a product that wraps around.
  EXPECT_THAT(error_of_tensor("\"F32\"", "[4611686018427387904]", "[0,0]", 0),
              HasSubstr("fewer than 2^63 bytes"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[4294967296,4294967296]", "[0,0]", 0),
              HasSubstr("fewer than 2^63"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[0,4294967296,4294967296]", "[0,0]", 0),
              HasSubstr("fewer than 2^63"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[18446744073709551615]", "[0,8]", 8),
              HasSubstr("expected a whole number"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[36893488147419103232]", "[0,8]", 8),
              HasSubstr("expected a whole number"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[2]", "[0,8]", 7), HasSubstr("begin <= end <= 7, got [0, 8]"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[2]", "[8,0]", 8), HasSubstr("begin <= end"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[2]", "[0]", 8), HasSubstr("expected [begin, end], got 1 numbers"));
  EXPECT_THAT(error_of_tensor("\"F32\"", "[2]", "[-8,0]", 8),
              HasSubstr("data_offsets: expected a whole number"));
  EXPECT_THAT(error_of_header(R"({"t":{"dtype":"F32","shape":[2]}})", 8),
              HasSubstr("t: expected data_offsets, got none"));
  EXPECT_THAT(error_of_header(R"({"t":[]})", 8), HasSubstr("t: expected an object, got array"));
}

TEST(Safetensors, RefusesHolesOverlapsAndALooseEnd) {
  const auto two = [](const std::string& first, const std::string& second, std::size_t data) {
    return error_of_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
                               R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}",
                           data);
  };
  EXPECT_EQ(two("[0,4]", "[4,8]", 8), "");
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "") << "the header's order is free";
  EXPECT_THAT(two("[0,4]", "[5,9]", 9),
              HasSubstr("b: expected data to begin at byte 4, got 5, so that a hole"));
  EXPECT_THAT(two("[1,5]", "[5,9]", 9), HasSubstr("a: expected data to begin at byte 0, got 1"));
  EXPECT_THAT(two("[0,4]", "[2,6]", 6),
              HasSubstr("b: expected data to begin at byte 4, got 2, so that it overlaps"));
  EXPECT_THAT(two("[0,4]", "[0,4]", 4), HasSubstr("overlaps"));
  EXPECT_THAT(two("[0,4]", "[4,8]", 9),
              HasSubstr("expected the last tensor to end with the file at byte 9, got 8"));
  EXPECT_THAT(error_of_header("{}", 1), HasSubstr("expected the last tensor to end"));
}

TEST(Safetensors, NeverOpensAPickleNorWhatIsNoFile) {
  const TemporaryDirectory directory;
  for (const char* name : {"pytorch_model.bin", "model.pt", "model.pth"}) {
    const auto path = directory.write(name, file_with("{}"));
    EXPECT_THAT(error_of([&] { Safetensors file(path); }), HasSubstr("pickle")) << name;
  }
  EXPECT_THAT(error_of([&] { Safetensors file(directory.path() / "no"); }), HasSubstr("cannot be read"));
  EXPECT_THAT(error_of([&] { Safetensors file(directory.path()); }), HasSubstr("is not a regular file"));
}

TEST(Safetensors, AnyDamageIsAUserErrorOrAValidFile) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model.safetensors";
  write_safetensors(path, some_tensors());
  const std::string whole = bytes_in(path);
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string bytes = whole;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 2 == 0 ? random() : '0' + random() % 10);
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    directory.write("damaged.safetensors", bytes);
    try {
      const Safetensors file(directory.path() / "damaged.safetensors");
      std::size_t total = 0;
      for (const TensorView& tensor : file.tensors()) total += tensor.bytes.size();
      EXPECT_LE(total, bytes.size());
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(SafetensorsDeathTest, AFileThatIsCutShortWhileItIsReadIsNamed) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model.safetensors";
  const std::vector<std::byte> zeros(std::size_t{1} << 20);
  write_safetensors(path, {{"a", TensorType::kF32, {1 << 18}, zeros}});
  EXPECT_EXIT(
      {
        catch_bus_errors();
        const Safetensors file(path);
        std::filesystem::resize_file(path, 4096);
        volatile std::byte last = file.find("a")->bytes.back();
        (void)last;
      },
      // No regular expression: libonig has a regcomp of its own, and AddressSanitizer calls libc's regexec.
      testing::ExitedWithCode(1),
      testing::AllOf(testing::StartsWith("routeopd: "),
                     testing::HasSubstr("model.safetensors: was cut short while it was read")));
}

}  // namespace
}  // namespace routeopd::formats
