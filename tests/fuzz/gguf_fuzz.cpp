// Any bytes, as one shard or (first byte odd) as two, through the whole of the reader's interface.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "format/gguf.h"
#include "format/summary.h"

namespace {

void exercise(const strata::GgufFile& file) {
  unsigned sum = 0;
  for (const strata::TensorInfo& t : file.tensors()) {
    const auto data = file.data(t);
    if (data.size() != strata::row_bytes(t.type, t.elems())) __builtin_trap();
    if (file.find_tensor(t.name) != &t) __builtin_trap();
    sum += std::to_integer<unsigned>(data.front()) + std::to_integer<unsigned>(data.back());
  }
  for (const strata::GgufKeyValue& kv : file.key_values()) {
    if (file.find_value(kv.key) != &kv.value) __builtin_trap();
    (void)file.find<uint32_t>(kv.key);
    (void)file.find<float>(kv.key);
    (void)file.find<std::vector<int64_t>>(kv.key);
    (void)file.find<std::span<const std::string_view>>(kv.key);
  }
  volatile size_t sink = sum + to_json(strata::summarize(file)).dump().size();
  (void)sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool two = (data[0] & 1) != 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<strata::GgufFile::Source> sources;
  if (two && bytes.size() >= 2) {
    const size_t cut =
        (std::to_integer<size_t>(bytes[0]) | std::to_integer<size_t>(bytes[1]) << 8) %
        (bytes.size() - 1);
    sources = {{"a.gguf", bytes.subspan(2, std::min(cut, bytes.size() - 2))},
               {"b.gguf", bytes.subspan(std::min(2 + cut, bytes.size()))}};
  } else {
    sources = {{"a.gguf", bytes}};
  }
  const auto file = strata::GgufFile::from_bytes(std::move(sources));
  if (file.ok()) exercise(*file);
  return 0;
}
