// SHA-256 (FIPS 180-4) of a byte string, as lower-case hexadecimal, to check data against published
// digests.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata::test {

namespace sha256_internal {

// The first 32 bits of the fractional part of the `root`-th root (2 or 3) of `prime`, by bisection
// on integers: the largest x with x^root <= prime * 2^(32 root).
constexpr uint32_t root_fraction(uint32_t prime, int root) {
  __extension__ typedef unsigned __int128 Wide;
  uint64_t low = 0;
  uint64_t high = uint64_t{1} << 37;  // the roots of all primes used lie below 32
  while (high - low > 1) {
    const uint64_t mid = low + (high - low) / 2;
    const Wide power = root == 2 ? Wide{mid} * mid : Wide{mid} * mid * mid;
    const Wide bound = Wide{prime} << 32 * root;
    (power <= bound ? low : high) = mid;
  }
  return static_cast<uint32_t>(low);
}

template <int kCount>
constexpr std::array<uint32_t, kCount> prime_root_fractions(int root) {
  std::array<uint32_t, kCount> out = {};
  int found = 0;
  for (uint32_t n = 2; found < kCount; ++n) {
    bool prime = true;
    for (uint32_t k = 2; k * k <= n; ++k) prime = prime && n % k != 0;
    if (prime) out[static_cast<size_t>(found++)] = root_fraction(n, root);
  }
  return out;
}

}  // namespace sha256_internal

inline std::string sha256_hex(std::string_view data) {
  static constexpr auto kRound = sha256_internal::prime_root_fractions<64>(3);
  std::array<uint32_t, 8> state = sha256_internal::prime_root_fractions<8>(2);

  std::string padded(data);
  padded.push_back(static_cast<char>(0x80));
  padded.append((120 - padded.size() % 64) % 64, '\0');
  const uint64_t bits = uint64_t{data.size()} * 8;
  for (int i = 7; i >= 0; --i) padded.push_back(static_cast<char>(bits >> 8 * i));

  for (size_t at = 0; at < padded.size(); at += 64) {
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; ++i) {
      w[i] = 0;
      for (size_t k = 0; k < 4; ++k) {
        w[i] = w[i] << 8 | static_cast<uint8_t>(padded[at + 4 * i + k]);
      }
    }
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15];
      const uint32_t b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += add[i];
  }

  std::string hex;
  for (const uint32_t word : state) {
    for (int i = 28; i >= 0; i -= 4) hex.push_back("0123456789abcdef"[word >> i & 15]);
  }
  return hex;
}

}  // namespace strata::test
