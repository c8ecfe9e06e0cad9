#include "engine/planner/layer_split.h"

#include <charconv>

#include "engine/planner/text_parts.h"

namespace strata::engine {

namespace {

constexpr size_t kMostPoints = 256;

Status fault(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message), "layer_split"};
}

}  // namespace

std::string LayerSplit::text() const {
  return automatic ? "auto" : fmt::format("{}", fmt::join(points, ","));
}

Result<LayerSplit> parse_layer_split(std::string_view text) {
  std::string_view list = trim(text);
  if (list == "auto") return LayerSplit{};
  if (list.starts_with('[') && list.ends_with(']')) {
    list = trim(list.substr(1, list.size() - 2));
  }
  LayerSplit split;
  split.automatic = false;
  for (const std::string_view part : split_text(list, ',')) {
    int point = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), point);
    if (part.empty() || error != std::errc() || stop != part.data() + part.size() ||
        split.points.size() == kMostPoints) {
      return fault(
          fmt::format("expected auto or the first layer of each device after the first, such "
                      "as 18 or 16,32, got {}",
                      quoted(text)));
    }
    if (point < 1) {
      return fault(
          fmt::format("layer split {}: {} leaves a device without a layer; the first point "
                      "is at least 1",
                      text, point));
    }
    if (!split.points.empty() && point <= split.points.back()) {
      return fault(fmt::format("layer split {}: the points must rise, but {} follows {}", text,
                               point, split.points.back()));
    }
    split.points.push_back(point);
  }
  return split;
}

Status check_layer_split(const LayerSplit& split, int layers, size_t devices) {
  if (split.automatic) return {};
  const size_t stages = split.points.size() + 1;
  if (stages > static_cast<size_t>(layers)) {
    return fault(
        fmt::format("layer split {} makes {} stages, but the model has {} layers; give fewer "
                    "points",
                    split.text(), stages, layers));
  }
  if (split.points.back() >= layers) {
    return fault(
        fmt::format("layer split {}: the model has layers 0 to {}, so the last point is at "
                    "most {}",
                    split.text(), layers - 1, layers - 1));
  }
  if (stages > devices) {
    return fault(
        fmt::format("layer split {} makes {} stages, but there {} {} to run them; name more "
                    "devices or give fewer points",
                    split.text(), stages, devices == 1 ? "is" : "are",
                    devices == 1 ? "one device" : fmt::format("{} devices", devices)));
  }
  return {};
}

}  // namespace strata::engine
