// What a device can do at best, as its maker publishes it. A plan multiplies these by efficiencies
// (assumptions.h); nothing here is tuned.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace routeopd::scale {

enum class DeviceKind { kGpu, kCpu };

struct Device {
  std::string name;  // as --gpu takes it
  DeviceKind kind = DeviceKind::kGpu;
  double bfloat16 = 0, float32 = 0;  // FLOP/s of dense matrix products (float32: TF32 on GPUs)
  double engine = 0;                 // of the engine's own products; 0: those above
  double memory = 0;                 // bytes
  double bandwidth = 0;              // of that memory, bytes/s
  double link = 0;                   // to devices of the same machine, bytes/s each way
  double network = 0;                // to other machines, bytes/s each way for each device
  std::int64_t per_machine = 8;
  std::string source;

  // Of products whose operands have `bytes` bytes a number, 2 or 4.
  double products(double bytes) const { return bytes <= 2 ? bfloat16 : float32; }
  double engine_products(double bytes) const { return engine > 0 ? engine : products(bytes); }

  // Between `devices` of them: the slowest link that a ring passes.
  double ring(std::int64_t devices) const { return devices <= per_machine ? link : network; }
};

// The published ones. This machine's processor is not among them: it is measured (run/measured_cpu.h).
const std::vector<Device>& devices();

// How --gpu calls the processor that the program runs on.
inline constexpr std::string_view kThisCpu = "this-cpu";

// By name, in any case. Throws UserError with the names that are known.
const Device& find_device(std::string_view name);

}  // namespace routeopd::scale
