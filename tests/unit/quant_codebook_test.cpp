// The compiled codebooks against the digests that the specification publishes.
#include <gtest/gtest.h>

#include <string>

#include "../support/sha256.h"
#include "format/quant/types.h"

namespace strata {
namespace {

namespace cb = quant::codebooks;

template <class Word, int kEntries>
std::string bytes_of(const cb::Grid<Word, kEntries>& grid) {
  std::string bytes;
  for (const Word entry : grid.entry) {
    for (size_t j = 0; j < sizeof(Word); ++j) bytes.push_back(static_cast<char>(entry >> 8 * j));
  }
  return bytes;
}

TEST(QuantCodebook, HashHelperAgreesWithThePublishedExamples) {
  EXPECT_EQ(test::sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(test::sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(QuantCodebook, GridsHaveThePublishedDigests) {
  EXPECT_EQ(test::sha256_hex(bytes_of(cb::kIq2xxsGrid)),
            "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54");
  EXPECT_EQ(test::sha256_hex(bytes_of(cb::kIq2xsGrid)),
            "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de");
  EXPECT_EQ(test::sha256_hex(bytes_of(cb::kIq2sGrid)),
            "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88");
  EXPECT_EQ(test::sha256_hex(bytes_of(cb::kIq3xxsGrid)),
            "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d");
  EXPECT_EQ(test::sha256_hex(bytes_of(cb::kIq3sGrid)),
            "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f");
  EXPECT_EQ(test::sha256_hex(bytes_of(cb::kIq1sGrid)),
            "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a");
}

TEST(QuantCodebook, SignBytesHaveThePublishedDigest) {
  std::string signs;
  for (uint32_t x = 0; x < 128; ++x) signs.push_back(static_cast<char>(cb::sign_byte(x)));
  EXPECT_EQ(test::sha256_hex(signs),
            "a76742a603f8beca5212ecce0f1f02f11a4887fd2f7c8b15aca0ea3eb3380c31");
}

}  // namespace
}  // namespace strata
