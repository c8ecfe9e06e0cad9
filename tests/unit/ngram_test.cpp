// The n-gram hash of docs/MODEL.md 3.3 with the constants of the real model; the rows are the test
// vectors given there.
#include <gtest/gtest.h>

#include "memory/ple_table.h"

namespace strata::memory {
namespace {

constexpr TokenId kEos = 248044;

PleHash real_hash() {
  PleHash hash;
  hash.ngram = 3;
  hash.heads_per_ngram = 8;
  hash.eos = kEos;
  hash.multipliers = {23703573157769, 20109073645365, 8052911324071};
  hash.moduli = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                 20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171};
  hash.offsets = {0,         20000003,  40000026,  60000059,  80000106,  100000165,
                  120000228, 140000297, 160000374, 180000455, 200000548, 220000655,
                  240000802, 260000955, 280001114, 300001275};
  return hash;
}

using Rows = std::vector<uint64_t>;

Rows rows_of(const std::vector<TokenId>& tokens, size_t index) {
  Rows rows(16);
  ngram_rows(real_hash(), tokens, index, rows);
  return rows;
}

TEST(Ngram, RowsAreThoseOfTheDocument) {
  const std::vector<TokenId> tokens = {1, 2, 3};
  EXPECT_EQ(rows_of(tokens, 0), (Rows{16121432, 28938500, 59087997, 73487090, 81148277, 104500129,
                                      120276032, 149373875, 176283436, 184305849, 216528839,
                                      231080079, 257961536, 266068568, 289043455, 305959965}));
  EXPECT_EQ(rows_of(tokens, 1), (Rows{15220011, 32170723, 40646129, 76511807, 98682440, 106072663,
                                      127158041, 141938523, 170367010, 180520041, 210849650,
                                      234005644, 252857364, 272068622, 291885712, 311569748}));
  EXPECT_EQ(rows_of(tokens, 2), (Rows{14605717, 24410875, 49313567, 72177428, 86060820, 104022010,
                                      130963819, 146886202, 161523077, 195939126, 219424565,
                                      220811782, 248020141, 275228530, 284297999, 309645223}));
}

TEST(Ngram, AnEndOfTextHidesEverythingBeforeIt) {
  // Behind the end of a text the window is that of a fresh sequence, however far back it stands.
  EXPECT_EQ(rows_of({7, 9, kEos, 1}, 3), rows_of({1}, 0));
  EXPECT_EQ(rows_of({7, kEos, 1, 2}, 3), rows_of({1, 2}, 1));
  EXPECT_NE(rows_of({7, kEos, 1, 2}, 3), rows_of({7, 8, 1, 2}, 3));
  EXPECT_EQ(rows_of({kEos, 1, 2, 3}, 3), rows_of({1, 2, 3}, 2));
}

TEST(Ngram, AnEndOfTextDoesNotCutItsOwnWindow) {
  const Rows own = rows_of({5, 6, kEos}, 2);
  EXPECT_NE(own, rows_of({9, 6, kEos}, 2));
  EXPECT_NE(own, rows_of({kEos}, 0));
  // Bigrams see one token back, trigrams two.
  const Rows other = rows_of({9, 6, kEos}, 2);
  EXPECT_TRUE(std::equal(own.begin(), own.begin() + 8, other.begin()));
  EXPECT_FALSE(std::equal(own.begin() + 8, own.end(), other.begin() + 8));
}

TEST(Ngram, OlderTokensThanTheOrderDoNotMatter) {
  EXPECT_EQ(rows_of({4, 1, 2, 3}, 3), rows_of({1, 2, 3}, 2));
  EXPECT_EQ(rows_of({4, 5, 1, 2, 3}, 4), rows_of({9, 1, 2, 3}, 3));
}

TEST(Ngram, EveryRowLiesInTheRangeOfItsHead) {
  const PleHash hash = real_hash();
  for (TokenId token = 0; token < 248320; token += 997) {
    const Rows rows = rows_of({248319, token, (token * 31) % 248320}, 2);
    for (size_t head = 0; head < rows.size(); ++head) {
      ASSERT_GE(rows[head], hash.offsets[head]);
      ASSERT_LT(rows[head], hash.offsets[head] + hash.moduli[head]);
    }
  }
}

}  // namespace
}  // namespace strata::memory
