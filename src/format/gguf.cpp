#include "format/gguf.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/anonymous_memory.h"
#include "format/gguf_index.h"
#include "format/gguf_layout.h"
#include "format/gguf_split.h"
#include "format/gguf_text.h"

namespace strata {

struct GgufFile::State {
  std::string path;
  std::vector<MappedFile> mappings;  // one per shard, or none for bytes in memory
  std::vector<std::span<const std::byte>> bytes;
  std::vector<std::string> names;
  std::vector<gguf::Index> indices;  // emptied by assemble

  std::vector<GgufShard> shards;
  std::vector<GgufKeyValue> key_values;
  std::vector<TensorInfo> tensors;
  std::vector<uint32_t> keys_by_name;
  std::vector<uint32_t> tensors_by_name;

  std::vector<AnonymousMemory> copies;
  std::vector<std::span<const std::byte>> copied;  // by tensor; empty: only mapped
};

namespace {

// Positions of `items` in order of name_of(item).
template <class Item, class NameOf>
std::vector<uint32_t> sorted_positions(const std::vector<Item>& items, NameOf name_of) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return std::string_view(name_of(items[i])); });
  return order;
}

template <class Item, class NameOf>
const Item* find_by_name(const std::vector<Item>& items, const std::vector<uint32_t>& order,
                         std::string_view name, NameOf name_of) {
  const auto at = std::ranges::lower_bound(
      order, name, {}, [&](uint32_t i) { return std::string_view(name_of(items[i])); });
  if (at == order.end() || name_of(items[*at]) != name) return nullptr;
  return &items[*at];
}

constexpr auto kKeyOf = [](const GgufKeyValue& kv) -> std::string_view { return kv.key; };
constexpr auto kNameOf = [](const TensorInfo& t) -> const std::string& { return t.name; };

// Drops every key value that an earlier one has the key of.
void keep_first_of_each_key(std::vector<GgufKeyValue>& key_values) {
  std::vector<uint32_t> order(key_values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return key_values[i].key; });
  std::vector<bool> repeated(key_values.size(), false);
  for (size_t i = 1; i < order.size(); ++i) {
    repeated[order[i]] = key_values[order[i - 1]].key == key_values[order[i]].key;
  }
  size_t kept = 0;
  for (size_t i = 0; i < key_values.size(); ++i) {
    if (repeated[i]) continue;
    if (kept != i) key_values[kept] = std::move(key_values[i]);
    ++kept;
  }
  key_values.resize(kept);
}

// Names the shards that are not there, before any of the others is opened.
Status check_present(const std::vector<std::string>& paths, size_t given) {
  std::string missing;
  size_t count = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (i == given || MappedFile::open(paths[i]).status().code() != StatusCode::kNotFound) continue;
    constexpr size_t kMaxNamed = 5;
    if (++count <= kMaxNamed) missing += (missing.empty() ? "'" : ", '") + paths[i] + "'";
  }
  if (count == 0) return {};
  return not_found(
      "'{}' is one of {} shards, and {} of them are missing beside it: {}{}; put all "
      "shards into one folder",
      paths[given], paths.size(), count, missing, count > 5 ? ", ..." : "");
}

}  // namespace

int64_t TensorInfo::elems() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string TensorInfo::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

GgufFile::GgufFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

Result<GgufFile> GgufFile::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  const auto add = [&](const std::string& name, MappedFile mapping, gguf::Index index) {
    state->names.push_back(name);
    state->bytes.push_back(mapping.bytes());
    state->mappings.push_back(std::move(mapping));
    state->indices.push_back(std::move(index));
  };

  STRATA_ASSIGN_OR_RETURN(MappedFile given, MappedFile::open(path));
  STRATA_ASSIGN_OR_RETURN(gguf::Index given_index, gguf::parse_index(given.bytes(), path));
  STRATA_ASSIGN_OR_RETURN(const gguf::SplitInfo split, gguf::read_split(given_index, path));
  if (split.count == 1) {
    add(path, std::move(given), std::move(given_index));
    return assemble(std::move(state));
  }
  STRATA_ASSIGN_OR_RETURN(const std::vector<std::string> paths, gguf::shard_paths(path, split));
  STRATA_RETURN_IF_ERROR(check_present(paths, split.no));
  for (uint32_t i = 0; i < split.count; ++i) {
    if (i == split.no) {
      add(path, std::move(given), std::move(given_index));
      continue;
    }
    STRATA_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(paths[i]));
    STRATA_ASSIGN_OR_RETURN(gguf::Index index, gguf::parse_index(mapping.bytes(), paths[i]));
    add(paths[i], std::move(mapping), std::move(index));
  }
  return assemble(std::move(state));
}

Result<GgufFile> GgufFile::from_bytes(std::vector<Source> sources) {
  if (sources.empty()) return invalid_argument("a GGUF model needs at least one shard");
  auto state = std::make_unique<State>();
  state->path = sources.front().name;
  for (Source& source : sources) {
    STRATA_ASSIGN_OR_RETURN(gguf::Index index, gguf::parse_index(source.bytes, source.name));
    state->indices.push_back(std::move(index));
    state->bytes.push_back(source.bytes);
    state->names.push_back(std::move(source.name));
  }
  return assemble(std::move(state));
}

Result<GgufFile> GgufFile::assemble(std::unique_ptr<State> state) {
  State& s = *state;
  STRATA_RETURN_IF_ERROR(gguf::check_shards(s.indices, s.names));
  gguf::Id42Count id_42;
  for (size_t i = 0; i < s.indices.size(); ++i) {
    gguf::count_id_42(s.indices[i], s.bytes[i].size(), id_42);
  }
  for (size_t i = 0; i < s.indices.size(); ++i) {
    gguf::Index& index = s.indices[i];
    STRATA_ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors,
                            gguf::lay_out_tensors(index, s.bytes[i].size(), s.names[i], i, id_42));
    s.shards.push_back(
        {s.names[i], s.bytes[i].size(), index.version, index.alignment, tensors.size()});
    std::ranges::move(tensors, std::back_inserter(s.tensors));

    std::ranges::move(index.key_values, std::back_inserter(s.key_values));
  }
  s.indices.clear();
  keep_first_of_each_key(s.key_values);
  s.keys_by_name = sorted_positions(s.key_values, kKeyOf);
  s.tensors_by_name = sorted_positions(s.tensors, kNameOf);
  return GgufFile(std::move(state));
}

const std::string& GgufFile::path() const { return state_->path; }
std::span<const GgufShard> GgufFile::shards() const { return state_->shards; }
std::span<const GgufKeyValue> GgufFile::key_values() const { return state_->key_values; }
std::span<const TensorInfo> GgufFile::tensors() const { return state_->tensors; }

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const GgufKeyValue* kv = find_by_name(state_->key_values, state_->keys_by_name, key, kKeyOf);
  return kv == nullptr ? nullptr : &kv->value;
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
  return find_by_name(state_->tensors, state_->tensors_by_name, name, kNameOf);
}

std::span<const std::byte> GgufFile::data(const TensorInfo& tensor) const {
  const auto index = static_cast<size_t>(&tensor - state_->tensors.data());
  if (index < state_->copied.size() && !state_->copied[index].empty()) return state_->copied[index];
  return state_->bytes[tensor.shard].subspan(tensor.offset, tensor.bytes);
}

Status GgufFile::copy_to_memory(std::span<const TensorInfo* const> tensors,
                                const std::function<void(uint64_t)>& progress) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kPiece = size_t{8} << 20;
  const auto room = [](const TensorInfo& t) {
    return (t.bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  State& s = *state_;
  s.copied.resize(s.tensors.size());
  const auto copy_of = [&](const TensorInfo& t) -> std::span<const std::byte>& {
    return s.copied[static_cast<size_t>(&t - s.tensors.data())];
  };
  size_t total = 0;
  for (const TensorInfo* t : tensors) {
    if (copy_of(*t).empty()) total += room(*t);
  }
  STRATA_ASSIGN_OR_RETURN(AnonymousMemory memory, AnonymousMemory::allocate(total));
  std::byte* to = memory.bytes().data();
  uint64_t done = 0;
  for (const TensorInfo* t : tensors) {
    if (!copy_of(*t).empty() || t->bytes == 0) continue;
    const std::span<const std::byte> from = s.bytes[t->shard].subspan(t->offset, t->bytes);
    const MappedFile* file = mapping(t->shard);
    for (size_t at = 0; at < from.size(); at += kPiece) {
      const size_t count = std::min(kPiece, from.size() - at);
      if (file != nullptr) {
        const size_t ahead = std::min(2 * kPiece, from.size() - at);
        file->prefetch(t->offset + at, ahead);
      }
      std::memcpy(to + at, from.data() + at, count);
      done += count;
      progress(done);
    }
    if (file != nullptr) file->forget(t->offset, t->bytes);
    copy_of(*t) = {to, t->bytes};
    to += room(*t);
  }
  s.copies.push_back(std::move(memory));
  return {};
}

const MappedFile* GgufFile::mapping(size_t shard) const {
  return state_->mappings.empty() ? nullptr : &state_->mappings[shard];
}

Status GgufFile::missing_key(std::string_view key) const {
  return failed_precondition("'{}': metadata key {} is missing", state_->path, gguf::quoted(key));
}

Status GgufFile::bad_key(std::string_view key, const Status& why) const {
  return failed_precondition("'{}': metadata key {} {}", state_->path, gguf::quoted(key),
                             why.message());
}

}  // namespace strata
