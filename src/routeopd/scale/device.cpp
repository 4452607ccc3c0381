// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/device.h"

#include <algorithm>

#include "routeopd/base/error.h"

namespace routeopd::scale {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

std::string lower(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

}  // namespace

// Matrix products are those without sparsity, in float32 those of FP32 proper: LibTorch has TF32 off; makers
// print twice that with it. Links are half of the printed figure, which adds both ways. A network is that of
// the maker's own machine of eight, a port for each device (DGX H100: 400 Gb/s, DGX A100: 200 Gb/s); for H20
// and L40S, which have no such machine, it is assumed.
const std::vector<Device>& devices() {
  static const std::vector<Device> all = {
      {.name = "H20",
       .bfloat16 = 148 * kTera,
       .float32 = 44 * kTera,
       .memory = 96 * kGiga,
       .bandwidth = 4000 * kGiga,
       .link = 450 * kGiga,
       .network = 50 * kGiga,
       .source = "NVIDIA's H20 figures as resellers reprint them: 148 TFLOP/s BF16, 96 GB HBM3, 4.0 TB/s, "
                 "NVLink 900 GB/s; network assumed as in DGX H100"},
      {.name = "H100",
       .bfloat16 = 989.5 * kTera,
       .float32 = 67 * kTera,
       .memory = 80 * kGiga,
       .bandwidth = 3350 * kGiga,
       .link = 450 * kGiga,
       .network = 50 * kGiga,
       .source = "NVIDIA H100 datasheet, SXM5: 1,979 TFLOP/s BF16 with sparsity, 80 GB, 3.35 TB/s, NVLink "
                 "900 GB/s; DGX H100: 400 Gb/s a GPU"},
      {.name = "A100",
       .bfloat16 = 312 * kTera,
       .float32 = 19.5 * kTera,
       .memory = 80 * kGiga,
       .bandwidth = 2039 * kGiga,
       .link = 300 * kGiga,
       .network = 25 * kGiga,
       .source = "NVIDIA A100 datasheet, 80 GB SXM: 312 TFLOP/s BF16, 2,039 GB/s, NVLink 600 GB/s; "
                 "DGX A100: 200 Gb/s a GPU"},
      {.name = "L40S",
       .bfloat16 = 362.05 * kTera,
       .float32 = 91.6 * kTera,
       .memory = 48 * kGiga,
       .bandwidth = 864 * kGiga,
       .link = 32 * kGiga,
       .network = 12.5 * kGiga,
       .source = "NVIDIA L40S datasheet: 362.05 TFLOP/s BF16, 48 GB, 864 GB/s, PCIe 4.0 x16 64 GB/s; "
                 "network assumed 100 Gb/s a GPU"},
  };
  return all;
}

const Device& find_device(std::string_view name) {
  std::string known;
  for (const Device& device : devices()) {
    if (lower(device.name) == lower(name)) return device;
    known += device.name + ", ";
  }
  throw UserError("--gpu {}: no such device; expected {}or {}", name, known, kThisCpu);
}

}  // namespace routeopd::scale
