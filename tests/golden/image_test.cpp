// Text with an image inside: picture embeddings in place of token embeddings and three-axis
// positions (docs/MODEL.md 3.4, 6.4), against the original implementation.
#include "golden/golden_data.h"
#include "support/shared_material.h"

namespace strata::test {
namespace {

struct Picture {
  std::string name;
  std::vector<TokenId> ids;
  int rows = 0, columns = 0;  // of image tokens: the patch grid merged 2 by 2
  size_t first = 0;           // index of the first image token
  std::vector<float> embeddings, logits;
};

std::vector<Picture> pictures(TokenId image_token) {
  std::vector<Picture> out;
  for (const auto& record : read_json(tiny_dir() + "/golden/vision.json")) {
    Picture p;
    p.name = record.at("name");
    p.ids = record.at("ids").get<std::vector<TokenId>>();
    p.rows = record.at("grid")[0].get<int>() / 2;
    p.columns = record.at("grid")[1].get<int>() / 2;
    p.first = static_cast<size_t>(std::find(p.ids.begin(), p.ids.end(), image_token) - p.ids.begin());
    p.embeddings = read_f32(tiny_dir() + "/golden/" + record.at("embd").get<std::string>());
    p.logits = read_f32(tiny_dir() + "/golden/" + record.at("logits_last4").get<std::string>());
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<model::Position> positions(const Picture& p, int& next) {
  std::vector<model::Position> out;
  next = 0;
  const auto image_tokens = static_cast<size_t>(p.rows * p.columns);
  for (size_t t = 0; t < p.ids.size(); ++t) {
    if (t < p.first || t >= p.first + image_tokens) {
      out.push_back({next, next, next});
      ++next;
      continue;
    }
    const int i = static_cast<int>(t - p.first);
    out.push_back({next, next + i / p.columns, next + i % p.columns});
    if (t + 1 == p.first + image_tokens) next += std::max(p.rows, p.columns);
  }
  return out;
}

TEST(GoldenImage, LogitsAfterAnImageMatchForAnyCut) {
  const std::string shared = shared_material();
  if (shared.empty()) GTEST_SKIP() << "the bf16 reference file is not on this machine";
  TestModel model(shared + "/tiny-model/strata-tiny-bf16-00001-of-00002.gguf", float_activations());
  const TokenId image_token = model.model().config().image_token;
  ASSERT_GE(image_token, 0);
  const auto width = static_cast<size_t>(model.model().config().width);
  for (const Picture& p : pictures(image_token)) {
    int next = 0;
    const auto where = positions(p, next);
    for (const size_t chunk : {p.ids.size(), size_t{17}}) {
      auto sequence = model.sequence(static_cast<int64_t>(p.ids.size()));
      std::vector<float> all, part;
      for (size_t begin = 0; begin < p.ids.size(); begin += chunk) {
        const size_t end = std::min(begin + chunk, p.ids.size());
        // The image tokens that fall into this cut.
        const size_t image_begin = std::max(begin, p.first);
        const size_t image_end =
            std::min(end, p.first + static_cast<size_t>(p.rows * p.columns));
        std::vector<model::EmbeddingRows> rows;
        if (image_begin < image_end) {
          rows.push_back({image_begin - begin,
                          std::span(p.embeddings)
                              .subspan((image_begin - p.first) * width,
                                       (image_end - image_begin) * width)});
        }
        const model::BatchItem item{.sequence = &sequence,
                                    .tokens = std::span(p.ids).subspan(begin, end - begin),
                                    .logits = model::LogitsOf::kEveryToken,
                                    .positions = std::span(where).subspan(begin, end - begin),
                                    .next_position = where[end - 1][0] + 1,
                                    .embeddings = rows};
        const Status status = model.model().forward({&item, 1}, part);
        ASSERT_TRUE(status.ok()) << status.message();
        all.insert(all.end(), part.begin(), part.end());
      }
      const auto last = std::span(all).last(p.logits.size());
      const double tolerance = 1e-4 * rms(p.logits);
      for (size_t i = 0; i < last.size(); ++i) {
        ASSERT_NEAR(last[i], p.logits[i], tolerance) << p.name << " chunk " << chunk << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
