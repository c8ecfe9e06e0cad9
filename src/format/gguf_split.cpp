#include "format/gguf_split.h"

#include <algorithm>

#include "format/gguf_text.h"

namespace strata::gguf {
namespace {

constexpr uint32_t kMaxShards = 99999;  // what the five digits of a name can say

template <class T>
Result<std::optional<T>> split_key(const Index& index, const std::string& path,
                                   std::string_view key) {
  const GgufValue* value = index.find(key);
  if (value == nullptr) return std::optional<T>();
  auto number = value->as<T>();
  if (!number.ok()) {
    return failed_precondition("'{}': key '{}' {}", path, key, number.status().message());
  }
  return std::optional<T>(*number);
}

// Keys that describe one file, not the model: they may differ between shards.
bool is_per_shard(std::string_view key) {
  return key.starts_with("split.") ||
         (key.starts_with("general.") && key != "general.architecture");
}

bool same(const GgufValue& a, const GgufValue& b) {
  return a.element_type() == b.element_type() && a.is_array() == b.is_array() &&
         std::ranges::equal(a.raw(), b.raw());
}

struct Named {
  std::string_view name;
  size_t shard;
  const GgufValue* value;
};

// Names that occur in two shards, ordered; `use(first, second)` may return a failure.
template <class Use>
Status for_each_shared(std::vector<Named>& names, Use use) {
  std::sort(names.begin(), names.end(), [](const Named& a, const Named& b) {
    return a.name != b.name ? a.name < b.name : a.shard < b.shard;
  });
  for (size_t i = 1; i < names.size(); ++i) {
    if (names[i - 1].name == names[i].name) {
      STRATA_RETURN_IF_ERROR(use(names[i - 1], names[i]));
    }
  }
  return {};
}

}  // namespace

Result<SplitInfo> read_split(const Index& index, const std::string& path) {
  STRATA_ASSIGN_OR_RETURN(const auto no, split_key<uint32_t>(index, path, "split.no"));
  STRATA_ASSIGN_OR_RETURN(const auto count, split_key<uint32_t>(index, path, "split.count"));
  STRATA_ASSIGN_OR_RETURN(const auto tensors,
                          split_key<uint64_t>(index, path, "split.tensors.count"));
  SplitInfo info;
  if (!count || *count <= 1) {
    if (no.value_or(0) != 0) {
      return failed_precondition("'{}': key 'split.no' is {}, but 'split.count' is {}", path, *no,
                                 count ? std::to_string(*count) : "missing");
    }
    return info;
  }
  if (!no) {
    return failed_precondition("'{}': key 'split.count' is {}, but 'split.no' is missing", path,
                               *count);
  }
  if (*count > kMaxShards || *no >= *count) {
    return failed_precondition(
        "'{}': keys 'split.no' ({}) and 'split.count' ({}) do not name a shard; the number is from "
        "0 to the count less one, the count at most {}",
        path, *no, *count, kMaxShards);
  }
  info.no = *no;
  info.count = *count;
  info.tensors = tensors;
  return info;
}

Result<std::vector<std::string>> shard_paths(const std::string& path, const SplitInfo& split) {
  const std::string suffix = fmt::format("-{:05}-of-{:05}.gguf", split.no + 1, split.count);
  if (!path.ends_with(suffix)) {
    return failed_precondition(
        "'{}' is shard {} of {}, so its name must end in '{}' for the other shards to be found "
        "beside it; give all shards their original names",
        path, split.no + 1, split.count, suffix);
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < split.count; ++i) {
    paths.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", stem, i + 1, split.count));
  }
  return paths;
}

Status check_shards(const std::vector<Index>& indices, const std::vector<std::string>& paths) {
  uint64_t found = 0;
  std::optional<uint64_t> announced;
  size_t announced_by = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    STRATA_ASSIGN_OR_RETURN(const SplitInfo split, read_split(indices[i], paths[i]));
    if (split.count != indices.size()) {
      return failed_precondition(
          "'{}' says that it is one of {} shards, but the model has {} ('{}'); a shard is missing "
          "or "
          "belongs to another model",
          paths[i], split.count, indices.size(), paths[0]);
    }
    if (split.no != i) {
      return failed_precondition(
          "'{}' says that it is shard {} of {}, but shard {} is expected there; a shard is "
          "repeated, "
          "renamed or belongs to another model",
          paths[i], split.no + 1, split.count, i + 1);
    }
    if (split.tensors) {
      if (announced && *announced != *split.tensors) {
        return failed_precondition(
            "key 'split.tensors.count' is {} in '{}' but {} in '{}'; the shards belong to "
            "different "
            "models",
            *announced, paths[announced_by], *split.tensors, paths[i]);
      }
      announced = split.tensors;
      announced_by = i;
    }
    found += indices[i].tensors.size();
  }
  if (announced && *announced != found) {
    return failed_precondition(
        "'{}': key 'split.tensors.count' announces {} tensors, but the {} shards hold {}",
        paths[announced_by], *announced, indices.size(), found);
  }

  std::vector<Named> names;
  for (size_t i = 0; i < indices.size(); ++i) {
    for (const RawTensor& t : indices[i].tensors) names.push_back({t.name, i, nullptr});
  }
  STRATA_RETURN_IF_ERROR(for_each_shared(names, [&](const Named& a, const Named& b) {
    return failed_precondition("tensor {} appears twice, in '{}' and in '{}'", quoted(a.name),
                               paths[a.shard], paths[b.shard]);
  }));
  names.clear();
  for (size_t i = 0; i < indices.size(); ++i) {
    for (const GgufKeyValue& kv : indices[i].key_values) {
      if (!is_per_shard(kv.key)) names.push_back({kv.key, i, &kv.value});
    }
  }
  return for_each_shared(names, [&](const Named& a, const Named& b) {
    if (same(*a.value, *b.value)) return Status();
    return failed_precondition(
        "key {} has different values in '{}' and in '{}'; the shards belong to different models",
        quoted(a.name), paths[a.shard], paths[b.shard]);
  });
}

}  // namespace strata::gguf
