// SPDX-License-Identifier: Apache-2.0
#include "device/pretend_memory.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

namespace routeopd::pretend {
namespace {

struct Block {
  std::size_t bytes = 0;
  int openings = 0;
};

// All blocks by their address. Kernels run on autograd's threads too.
struct Memory {
  std::mutex mutex;
  std::map<std::uintptr_t, Block> blocks;
};

Memory& memory() {
  static auto* const all = new Memory;  // outlives every tensor, also those of other static objects
  return *all;
}

void protect(std::uintptr_t address, const Block& block, int access) {
  TORCH_CHECK(::mprotect(reinterpret_cast<void*>(address), block.bytes, access) == 0,
              "pretend device: mprotect failed");
}

void release(void* data) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == all.blocks.end()) return;
  ::munmap(data, found->second.bytes);
  all.blocks.erase(found);
}

class PageAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device(c10::DeviceType::PrivateUse1, 0);
    if (bytes == 0) return {nullptr, device};
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t mapped = (bytes + page - 1) / page * page;
    void* const data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(data != MAP_FAILED, "pretend device: no memory");
    std::memset(data, 0xFF, mapped);
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    Memory& all = memory();
    const std::lock_guard lock(all.mutex);
    protect(address, all.blocks[address] = {.bytes = mapped}, PROT_NONE);
    return {data, data, &release, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    Opened both;
    both.open(to);
    both.open(from);
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

c10::Allocator& allocator() {
  static auto* const pages = new PageAllocator;
  return *pages;
}

std::int64_t allocated_bytes() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  std::int64_t sum = 0;
  for (const auto& [address, block] : all.blocks) sum += static_cast<std::int64_t>(block.bytes);
  return sum;
}

void Opened::open(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  auto next = all.blocks.upper_bound(address);
  if (next == all.blocks.begin()) return;
  auto& [first, block] = *--next;
  if (address >= first + block.bytes) return;
  if (block.openings++ == 0) protect(first, block, PROT_READ | PROT_WRITE);
  blocks_.push_back(first);
}

Opened::~Opened() {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  for (const std::uintptr_t address : blocks_) {
    const auto found = all.blocks.find(address);
    if (found != all.blocks.end() && --found->second.openings == 0)
      ::mprotect(reinterpret_cast<void*>(address), found->second.bytes, PROT_NONE);
  }
}

}  // namespace routeopd::pretend
