// SPDX-License-Identifier: Apache-2.0
#include "routeopd/model/model_files.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "routeopd/base/error.h"
#include "routeopd/base/files.h"
#include "routeopd/base/interrupt.h"
#include "routeopd/base/parallel.h"
#include "routeopd/formats/weight_files.h"
#include "routeopd/formats/weight_table.h"

namespace routeopd::model {
namespace {

namespace fs = std::filesystem;

struct DtypeRow {
  formats::TensorType stored;
  at::ScalarType scalar;
  const char* name;  // in config.json
};
constexpr std::array<DtypeRow, 3> kDtypes = {{{formats::TensorType::kF32, at::kFloat, "float32"},
                                              {formats::TensorType::kF16, at::kHalf, "float16"},
                                              {formats::TensorType::kBF16, at::kBFloat16, "bfloat16"}}};

const DtypeRow& row_of(at::ScalarType scalar) {
  const auto found =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeRow& row) { return row.scalar == scalar; });
  ROUTEOPD_INVARIANT(found != kDtypes.end());
  return *found;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string sizes;
  for (const std::int64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return "[" + sizes + "]";
}

// The stored type, and the stored shape against the table's.
void check_tensor(const formats::WeightFiles::Entry& entry, const std::vector<std::int64_t>& expected) {
  if (std::none_of(kDtypes.begin(), kDtypes.end(),
                   [&](const DtypeRow& row) { return row.stored == entry.tensor->type; }))
    throw UserError("{}: {} is stored as {}; expected F32, F16 or BF16", entry.file->string(),
                    entry.tensor->name, formats::name_of(entry.tensor->type));
  if (entry.tensor->shape != expected)
    throw UserError("{}: {} has shape {}; config.json makes it {}", entry.file->string(), entry.tensor->name,
                    shape_text(entry.tensor->shape), shape_text(expected));
}

// Elements [begin, end) of a stored tensor as float32. The bytes of a file may begin at any address.
void widen(const formats::TensorView& view, std::int64_t begin, std::int64_t end, float* target) {
  const std::byte* const stored = view.bytes.data();
  if (view.type == formats::TensorType::kF32) {
    std::memcpy(target, stored + begin * 4, static_cast<std::size_t>(end - begin) * 4);
    return;
  }
  const bool brain = view.type == formats::TensorType::kBF16;  // the upper half of a float32
  for (std::int64_t i = begin; i < end; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, stored + i * 2, 2);
    *target++ =
        brain ? std::bit_cast<float>(std::uint32_t{half} << 16U) : c10::detail::fp16_ieee_to_fp32_value(half);
  }
}

// All tensors at once, cut into equal shares by elements, so that no thread waits for another. Each asks for
// interrupts every kPortion elements, about a tenth of a second from a disk of 100 MB/s.
void load_tensors(const std::vector<formats::WeightFiles::Entry>& entries,
                  const std::vector<Parameter>& targets) {
  constexpr std::int64_t kGrain = 1 << 20, kPortion = 4 << 20;
  std::vector<std::int64_t> starts = {0};
  for (const Parameter& target : targets) starts.push_back(starts.back() + target.tensor.numel());
  parallel_ranges(starts.back(), kGrain, at::get_num_threads(), [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::int64_t first = std::max(begin, starts[i]), last = std::min(end, starts[i + 1]);
      for (std::int64_t from = first; from < last; from += kPortion) {
        check_interrupt();
        widen(*entries[i].tensor, from - starts[i], std::min(from + kPortion, last) - starts[i],
              targets[i].tensor.data_ptr<float>() + (from - starts[i]));
      }
    }
  });
}

// Tables of angles, which old Llama files hold although they follow from the configuration.
bool is_derived(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

// Views of the tensors as they will be stored; `held` keeps the converted ones alive.
std::vector<formats::TensorView> views_of(const std::vector<Parameter>& tensors, at::ScalarType dtype,
                                          std::vector<at::Tensor>& held) {
  std::vector<formats::TensorView> views;
  for (const Parameter& parameter : tensors) {
    const at::Tensor& stored = held.emplace_back(parameter.tensor.detach().to(at::kCPU, dtype).contiguous());
    views.push_back({parameter.name,
                     row_of(dtype).stored,
                     stored.sizes().vec(),
                     {static_cast<const std::byte*>(stored.const_data_ptr()), stored.nbytes()}});
  }
  return views;
}

// A tied head may be stored beside the embedding when the two are equal; of two different tables one would be
// lost.
void check_tied(const formats::WeightFiles& stored, const formats::ModelConfig& config) {
  const auto embedding = stored.find(formats::embedding_name(config));
  const auto head = stored.find(formats::head_name(config));
  if (embedding.tensor == nullptr || head.tensor == nullptr) return;
  const auto one = embedding.tensor->bytes, other = head.tensor->bytes;
  if (embedding.tensor->type != head.tensor->type ||
      !std::equal(one.begin(), one.end(), other.begin(), other.end()))
    throw UserError(
        "{}: {} differs from {}, though config.json ties them; expected one of the two, or "
        "tie_word_embeddings = false",
        head.file->string(), head.tensor->name, embedding.tensor->name);
}

// The stored tensor of each row of the table, in order. Every name and shape is checked here, so that nothing
// is allocated for sizes that a configuration claims and the files do not have.
std::vector<formats::WeightFiles::Entry> match_weights(const formats::WeightFiles& stored,
                                                       const formats::ModelConfig& config,
                                                       const fs::path& directory) {
  if (config.tie_word_embeddings) check_tied(stored, config);
  // No table is made for layers that cannot be there.
  if (config.num_hidden_layers > std::ssize(stored.tensors()))
    throw UserError(
        "{}: expected the tensors of {} layers, got {} tensors in all; do config.json and the weights belong "
        "together?",
        directory.string(), config.num_hidden_layers, stored.tensors().size());
  std::vector<formats::WeightFiles::Entry> entries;
  std::set<std::string> known;
  for (const formats::WeightRow& row : formats::weight_table(config)) {
    known.insert(row.name);
    formats::WeightFiles::Entry entry = stored.find(row.name);
    // A tied pair may be stored under the head's name alone.
    if (entry.tensor == nullptr && config.tie_word_embeddings && row.weight == formats::Weight::kEmbedding)
      entry = stored.find(formats::head_name(config));
    if (entry.tensor == nullptr)
      throw UserError("{}: {} is missing; do config.json and the weights belong together?",
                      directory.string(), row.name);
    check_tensor(entry, row.shape);
    entries.push_back(entry);
  }
  if (config.tie_word_embeddings) known.insert(formats::head_name(config));
  for (const auto& [name, entry] : stored.tensors()) {
    if (!known.contains(name) && !is_derived(name))
      throw UserError("{}: unexpected tensor {}; config.json describes a model without it",
                      entry.file->string(), name);
  }
  return entries;
}

}  // namespace

Model load_model(const fs::path& directory) {
  const c10::NoGradGuard no_grad;
  const formats::ModelConfig config = formats::read_model_config(directory);
  const formats::WeightFiles stored(directory);
  const std::vector<formats::WeightFiles::Entry> entries = match_weights(stored, config, directory);
  Model model = allocate_model(config);
  load_tensors(entries, parameters(model));
  return model;
}

StoredWeights describe_weights(const fs::path& directory) {
  const formats::ModelConfig config = formats::read_model_config(directory);
  const formats::WeightFiles stored(directory);
  StoredWeights weights;
  for (const formats::WeightFiles::Entry& entry : match_weights(stored, config, directory)) {
    const auto bytes = static_cast<std::int64_t>(entry.tensor->bytes.size());
    const auto count = bytes / static_cast<std::int64_t>(formats::size_of(entry.tensor->type));
    weights.bytes += bytes;
    weights.parameters += count;
    weights.types[formats::name_of(entry.tensor->type)] += count;
  }
  for (const auto& file : stored.files()) weights.files.push_back(file->path());
  return weights;
}

void save_tensors(const fs::path& path, const std::vector<Parameter>& tensors, at::ScalarType dtype) {
  std::vector<at::Tensor> held;
  formats::write_safetensors(path, views_of(tensors, dtype, held));
}

void read_tensors(const fs::path& path, const std::vector<Parameter>& targets) {
  const formats::Safetensors file(path);
  if (file.tensors().size() != targets.size())
    throw UserError("{}: has {} tensors; expected {}", path.string(), file.tensors().size(), targets.size());
  for (const Parameter& target : targets) {
    const formats::TensorView* const stored = file.find(target.name);
    if (stored == nullptr) throw UserError("{}: {} is missing", path.string(), target.name);
    if (stored->type != formats::TensorType::kF32 || stored->shape != target.tensor.sizes().vec())
      throw UserError("{}: {} is {} of shape {}; expected F32 of shape {}", path.string(), target.name,
                      formats::name_of(stored->type), shape_text(stored->shape),
                      shape_text(target.tensor.sizes().vec()));
    at::Tensor on_host =
        target.tensor.is_cpu() ? target.tensor : at::empty(target.tensor.sizes(), at::kFloat);
    widen(*stored, 0, on_host.numel(), on_host.data_ptr<float>());
    if (!target.tensor.is_cpu()) target.tensor.copy_(on_host);
  }
}

void write_model_files(const Model& model, const fs::path& directory, const CarriedFiles& like,
                       const SaveOptions& options) {
  like.write(directory, row_of(options.dtype).name);
  std::vector<Parameter> weights = parameters(model);
  if (options.own_head && model.config.tie_word_embeddings)
    weights.push_back({formats::head_name(model.config), model.head_VH});
  std::vector<at::Tensor> held;
  formats::write_weights(directory, views_of(weights, options.dtype, held), options.shard_bytes);
}

void save_model(const Model& model, const fs::path& directory, const CarriedFiles& like,
                const SaveOptions& options) {
  AtomicDirectory target(directory);
  write_model_files(model, target.path(), like, options);
  target.commit();
}

void save_model(const Model& model, const fs::path& directory, const fs::path& like,
                const SaveOptions& options) {
  save_model(model, directory, CarriedFiles(like), options);
}

}  // namespace routeopd::model
