#include "format/gguf_layout.h"

#include <algorithm>
#include <numeric>

#include "format/gguf_text.h"

namespace strata::gguf {
namespace {

constexpr uint32_t kId42 = quant::Q2_0::kGgufId;
static_assert(quant::Q2_0_G128::kGgufId == kId42);

// A multiple of the extent of every row, see parse_index for the absence of overflow.
uint64_t elems_of(const RawTensor& t) {
  uint64_t elems = 1;
  for (const int64_t extent : t.shape) elems *= static_cast<uint64_t>(extent);
  return elems;
}

// Table positions in order of offset.
std::vector<uint32_t> by_offset(const Index& index) {
  std::vector<uint32_t> order(index.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return index.tensors[a].offset < index.tensors[b].offset;
  });
  return order;
}

// How a tensor of id 42 lies in its file under one of the two readings.
enum class Fit {
  kNo,  // rows do not divide into blocks, or the bytes reach into the next tensor or past the end
  kLoose,  // fits, with more than padding behind it
  kExact,  // ends where the next tensor, or the file, needs it to
};

Fit fit_of(const RawTensor& t, const QuantInfo& info, uint64_t room, bool last,
           uint64_t alignment) {
  if (t.shape[0] % info.elems != 0) return Fit::kNo;
  const uint64_t blocks = elems_of(t) / static_cast<uint64_t>(info.elems);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, static_cast<uint64_t>(info.bytes), &bytes)) return Fit::kNo;
  if (bytes > room) return Fit::kNo;
  // The last tensor may or may not be padded.
  if (last && bytes == room) return Fit::kExact;
  const uint64_t padding = (alignment - bytes % alignment) % alignment;
  return room - bytes == padding ? Fit::kExact : Fit::kLoose;
}

struct Id42Fits {
  Fit g64 = Fit::kNo;
  Fit g128 = Fit::kNo;
  bool last = false;
};

// Of the tensor at order[k].
Id42Fits id_42_fits(const Index& index, const std::vector<uint32_t>& order, size_t k,
                    uint64_t file_bytes) {
  const RawTensor& t = index.tensors[order[k]];
  size_t next = k + 1;
  while (next < order.size() && index.tensors[order[next]].offset == t.offset) ++next;
  Id42Fits fits;
  fits.last = next == order.size();
  const uint64_t data_bytes = file_bytes > index.data_begin ? file_bytes - index.data_begin : 0;
  const uint64_t end = fits.last ? data_bytes : index.tensors[order[next]].offset;
  const uint64_t room = end > t.offset ? end - t.offset : 0;
  fits.g64 = fit_of(t, quant_info(QuantType::kQ2_0), room, fits.last, index.alignment);
  fits.g128 = fit_of(t, quant_info(QuantType::kQ2_0_G128), room, fits.last, index.alignment);
  return fits;
}

QuantType resolve_id_42(const RawTensor& t, const Id42Fits& fits, const Id42Count& count) {
  if ((fits.g64 == Fit::kExact) != (fits.g128 == Fit::kExact)) {
    return fits.g64 == Fit::kExact ? QuantType::kQ2_0 : QuantType::kQ2_0_G128;
  }
  // Before another tensor an overlap is decisive too; at the end of the file it may be a
  // truncation.
  if (!fits.last && (fits.g64 == Fit::kNo) != (fits.g128 == Fit::kNo)) {
    return fits.g64 == Fit::kNo ? QuantType::kQ2_0_G128 : QuantType::kQ2_0;
  }
  const bool may_be_g128 = t.shape[0] % quant::Q2_0_G128::kElems == 0;
  return count.g128 > count.g64 && may_be_g128 ? QuantType::kQ2_0_G128 : QuantType::kQ2_0;
}

std::string supported_types() {
  std::string list;
  for (int i = 0; i < kQuantTypeCount; ++i) {
    const QuantInfo& info = quant_info(static_cast<QuantType>(i));
    if (info.type == QuantType::kQ2_0_G128) continue;
    fmt::format_to(std::back_inserter(list), "{}{} ({})", list.empty() ? "" : ", ", info.name,
                   info.gguf_id);
  }
  return list;
}

class Layout {
 public:
  Layout(const Index& index, uint64_t file_bytes, const std::string& path, size_t shard)
      : index_(index), file_bytes_(file_bytes), path_(path), shard_(shard) {}

  Result<std::vector<TensorInfo>> run(const Id42Count& id_42) {
    const std::vector<uint32_t> order = by_offset(index_);
    tensors_.resize(index_.tensors.size());
    for (size_t k = 0; k < order.size(); ++k) {
      STRATA_RETURN_IF_ERROR(place(order, k, id_42));
    }
    STRATA_RETURN_IF_ERROR(check_overlaps(order));
    STRATA_RETURN_IF_ERROR(check_end());
    return std::move(tensors_);
  }

 private:
  template <class... Args>
  Status fail(fmt::format_string<Args...> f, Args&&... args) const {
    return failed_precondition("'{}': {}", path_, fmt::format(f, std::forward<Args>(args)...));
  }

  Status place(const std::vector<uint32_t>& order, size_t k, const Id42Count& id_42) {
    const RawTensor& raw = index_.tensors[order[k]];
    TensorInfo& t = tensors_[order[k]];
    t.name = std::string(raw.name);
    t.shape.assign(raw.shape.begin(), raw.shape.begin() + raw.rank);
    t.shard = shard_;
    const std::optional<QuantType> type = quant_from_gguf_id(raw.type_id);
    if (!type) {
      return fail("tensor {} has type id {}, which this build does not know; it reads {}",
                  quoted(raw.name), raw.type_id, supported_types());
    }
    t.type = *type;
    if (raw.type_id == kId42) {
      t.type = resolve_id_42(raw, id_42_fits(index_, order, k, file_bytes_), id_42);
    }
    const QuantInfo& info = quant_info(t.type);
    if (raw.shape[0] % info.elems != 0) {
      return fail(
          "tensor {} of type {} has rows of {} elements, which is not a multiple of the "
          "type's block of {}",
          quoted(raw.name), info.name, raw.shape[0], info.elems);
    }
    const uint64_t blocks = elems_of(raw) / static_cast<uint64_t>(info.elems);
    uint64_t end = 0;
    if (__builtin_mul_overflow(blocks, static_cast<uint64_t>(info.bytes), &t.bytes) ||
        __builtin_add_overflow(raw.offset, index_.data_begin, &t.offset) ||
        __builtin_add_overflow(t.offset, t.bytes, &end)) {
      return fail("tensor {} of shape {} and type {} at offset {} would end beyond 2^64 bytes",
                  quoted(raw.name), t.shape_text(), info.name, raw.offset);
    }
    return {};
  }

  Status check_overlaps(const std::vector<uint32_t>& order) const {
    for (size_t k = 1; k < order.size(); ++k) {
      const TensorInfo& a = tensors_[order[k - 1]];
      const TensorInfo& b = tensors_[order[k]];
      if (a.offset + a.bytes > b.offset) {
        return fail("tensor {} ({} {}) needs bytes {} to {}, but tensor {} begins at byte {}",
                    quoted(a.name), quant_info(a.type).name, a.shape_text(), a.offset,
                    a.offset + a.bytes - 1, quoted(b.name), b.offset);
      }
    }
    return {};
  }

  Status check_end() const {
    const TensorInfo* last = nullptr;
    for (const TensorInfo& t : tensors_) {
      if (last == nullptr || t.offset + t.bytes > last->offset + last->bytes) last = &t;
    }
    if (last == nullptr || last->offset + last->bytes <= file_bytes_) return {};
    const uint64_t end = last->offset + last->bytes;
    return fail(
        "the file has {} bytes, but its tensors reach to byte {} (tensor {}, {} {}): {} bytes "
        "are missing; it is truncated or damaged, fetch it again",
        file_bytes_, end, quoted(last->name), quant_info(last->type).name, last->shape_text(),
        end - file_bytes_);
  }

  const Index& index_;
  uint64_t file_bytes_;
  const std::string& path_;
  size_t shard_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

void count_id_42(const Index& index, uint64_t file_bytes, Id42Count& count) {
  const std::vector<uint32_t> order = by_offset(index);
  for (size_t k = 0; k < order.size(); ++k) {
    if (index.tensors[order[k]].type_id != kId42) continue;
    const Id42Fits fits = id_42_fits(index, order, k, file_bytes);
    count.g64 += fits.g64 == Fit::kExact && fits.g128 != Fit::kExact;
    count.g128 += fits.g128 == Fit::kExact && fits.g64 != Fit::kExact;
  }
}

Result<std::vector<TensorInfo>> lay_out_tensors(const Index& index, uint64_t file_bytes,
                                                const std::string& path, size_t shard,
                                                const Id42Count& id_42) {
  return Layout(index, file_bytes, path, shard).run(id_42);
}

}  // namespace strata::gguf
