#include "text/grammar/json_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace strata::grammar {

namespace {

constexpr uint32_t kMaxModulus = 10'000;

// Languages over decimal digits. Magnitudes have no sign; fractions begin with the point.
class Digits {
 public:
  Digits(uint32_t whole, uint32_t fraction, bool integer)
      : most_whole_(whole), most_fraction_(fraction), integer_(integer) {}

  GrammarBuilder builder;

  ExprId any_number() {
    const ExprId natural = builder.concat({first(), digits(0, most_whole_ - 1)});
    const ExprId minus = builder.literal("-");
    if (integer_)
      return builder.either({builder.literal("0"), natural, builder.concat({minus, natural})});
    return builder.concat({builder.optional(minus), any_magnitude()});
  }

  ExprId at_least(const NumberBound& bound) {
    const Decimal& v = bound.value;
    if (!v.negative || v.is_zero()) return magnitude_from(v, bound.exclusive);
    return builder.either({any_magnitude(), builder.concat({builder.literal("-"),
                                                            magnitude_to(v, bound.exclusive)})});
  }

  ExprId at_most(const NumberBound& bound) {
    const Decimal& v = bound.value;
    const ExprId minus = builder.literal("-");
    if (v.negative && !v.is_zero()) {
      return builder.concat({minus, magnitude_from(v, bound.exclusive)});
    }
    const bool excludes_zero = v.is_zero() && bound.exclusive;
    return builder.either(
        {builder.concat({minus, excludes_zero ? magnitude_from(Decimal(), true) : any_magnitude()}),
         magnitude_to(v, bound.exclusive)});
  }

 private:
  ExprId digit() { return builder.bytes(ByteSet::range('0', '9')); }
  ExprId first() { return builder.bytes(ByteSet::range('1', '9')); }
  ExprId digits(uint32_t min, uint32_t max) { return builder.repeat(digit(), min, max); }
  ExprId between(char low, char high) {
    if (low > high) return builder.none();
    return builder.bytes(ByteSet::range(static_cast<uint8_t>(low), static_cast<uint8_t>(high)));
  }
  ExprId maybe_fraction() {
    return builder.optional(builder.concat({builder.literal("."), digits(1, most_fraction_)}));
  }
  ExprId any_magnitude() {
    return builder.concat({builder.either({builder.literal("0"),
                                           builder.concat({first(), digits(0, most_whole_ - 1)})}),
                           maybe_fraction()});
  }
  // Digits of which one is not 0.
  ExprId some_nonzero() {
    return builder.concat({digits(0, most_fraction_ - 1), first(), digits(0, most_fraction_)});
  }

  // Fractions, none included, of at least 0.f.
  ExprId fraction_from(const std::string& f, bool exclusive) {
    const ExprId point = builder.literal(".");
    if (f.empty()) {
      return exclusive ? builder.concat({point, some_nonzero()}) : maybe_fraction();
    }
    std::vector<ExprId> ways;
    for (size_t i = 0; i < f.size(); ++i) {
      ways.push_back(
          builder.concat({builder.literal(f.substr(0, i)),
                          between(static_cast<char>(f[i] + 1), '9'), digits(0, most_fraction_)}));
    }
    ways.push_back(builder.concat(
        {builder.literal(f), exclusive ? some_nonzero() : digits(0, most_fraction_)}));
    return builder.concat({point, builder.either(std::move(ways))});
  }

  // Fractions, none included, of at most 0.f.
  ExprId fraction_to(const std::string& f, bool exclusive) {
    const ExprId point = builder.literal(".");
    const ExprId zeros = builder.literal("0");
    if (f.empty()) {
      if (exclusive) return builder.none();
      return builder.optional(builder.concat({point, builder.repeat(zeros, 1, most_fraction_)}));
    }
    std::vector<ExprId> ways;
    for (size_t i = 0; i < f.size(); ++i) {
      const ExprId prefix = builder.literal(f.substr(0, i));
      if (i > 0) ways.push_back(prefix);  // shorter, and what was left out is not all 0
      ways.push_back(builder.concat(
          {prefix, between('0', static_cast<char>(f[i] - 1)), digits(0, most_fraction_)}));
    }
    if (!exclusive) {
      ways.push_back(
          builder.concat({builder.literal(f), builder.repeat(zeros, 0, most_fraction_)}));
    }
    return builder.optional(builder.concat({point, builder.either(std::move(ways))}));
  }

  ExprId magnitude_from(const Decimal& v, bool exclusive) {
    const std::string& w = v.whole;
    const auto length = static_cast<uint32_t>(w.size());
    std::vector<ExprId> larger;
    if (w == "0") {
      larger.push_back(builder.concat({first(), digits(0, most_whole_ - 1)}));
    } else {
      if (length < most_whole_) {
        larger.push_back(builder.concat({first(), digits(length, most_whole_ - 1)}));
      }
      for (uint32_t i = 0; i < length; ++i) {
        larger.push_back(builder.concat({builder.literal(w.substr(0, i)),
                                         between(static_cast<char>(w[i] + 1), '9'),
                                         digits(length - i - 1, length - i - 1)}));
      }
    }
    return builder.either(
        {builder.concat({builder.either(std::move(larger)), maybe_fraction()}),
         builder.concat({builder.literal(w), fraction_from(v.fraction, exclusive)})});
  }

  ExprId magnitude_to(const Decimal& v, bool exclusive) {
    const std::string& w = v.whole;
    const auto length = static_cast<uint32_t>(w.size());
    std::vector<ExprId> smaller;
    if (w != "0") {
      smaller.push_back(builder.literal("0"));
      if (length > 1) smaller.push_back(builder.concat({first(), digits(0, length - 2)}));
      for (uint32_t i = 0; i < length; ++i) {
        smaller.push_back(builder.concat({builder.literal(w.substr(0, i)),
                                          between(i == 0 ? '1' : '0', static_cast<char>(w[i] - 1)),
                                          digits(length - i - 1, length - i - 1)}));
      }
    }
    return builder.either(
        {builder.concat({builder.either(std::move(smaller)), maybe_fraction()}),
         builder.concat({builder.literal(w), fraction_to(v.fraction, exclusive)})});
  }

  uint32_t most_whole_, most_fraction_;
  bool integer_;
};

// Numbers whose value times 10^k is 0 modulo p: the remainder is carried from digit to digit, and
// digits after the k-th of the fraction must be 0.
Result<Automaton> multiples(const Decimal& of) {
  uint64_t p = 0;
  for (const char c : of.whole + of.fraction) {
    p = p * 10 + static_cast<uint64_t>(c - '0');
    if (p > kMaxModulus) {
      return out_of_range("multipleOf {} has too many digits; up to {} times a power of ten work",
                          of.text(), kMaxModulus);
    }
  }
  const auto k = static_cast<uint32_t>(of.fraction.size());
  if (p * (k + 2) > kMaxAutomatonStates) {
    return out_of_range("multipleOf {} has too many digits", of.text());
  }
  const auto n = static_cast<uint32_t>(p);
  Automaton out;
  out.states.resize(2 + size_t{n} * (k + 3));
  // Whole part, after the point, then fraction digits 0..k (0 only when k is 0), by remainder.
  const auto whole = [&](uint64_t r) { return 2 + static_cast<uint32_t>(r % n); };
  const auto point = [&](uint64_t r) { return 2 + n + static_cast<uint32_t>(r % n); };
  const auto part = [&](uint32_t j, uint64_t r) {
    return 2 + n * (2 + j) + static_cast<uint32_t>(r % n);
  };
  const auto add = [&](uint32_t from, char c, uint32_t to) {
    out.states[from].edges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), to});
  };
  const auto power = [&](uint32_t exponent, uint64_t r) {
    for (uint32_t i = 0; i < exponent; ++i) r = r * 10 % n;
    return r;
  };
  add(0, '-', 1);
  for (uint32_t start = 0; start < 2; ++start) {
    for (uint32_t d = 0; d < 10; ++d) add(start, static_cast<char>('0' + d), whole(d));
  }
  for (uint32_t r = 0; r < n; ++r) {
    add(whole(r), '.', point(r));
    out.states[whole(r)].final = power(k, r) == 0;
    for (uint32_t d = 0; d < 10; ++d) {
      const char c = static_cast<char>('0' + d);
      add(whole(r), c, whole(uint64_t{r} * 10 + d));
      if (k > 0) add(point(r), c, part(1, uint64_t{r} * 10 + d));
      for (uint32_t j = 1; j < k; ++j) add(part(j, r), c, part(j + 1, uint64_t{r} * 10 + d));
    }
    if (k == 0) add(point(r), '0', part(0, r));
    add(part(k, r), '0', part(k, r));
    for (uint32_t j = k == 0 ? 0 : 1; j <= k; ++j) {
      out.states[part(j, r)].final = power(k - j, r) == 0;
    }
  }
  return out;
}

}  // namespace

Decimal Decimal::of(const Json& number) {
  Decimal out;
  std::string digits;
  if (number.is_number_float()) {
    std::array<char, 800> buffer{};
    const double value = number.get<double>();
    if (!std::isfinite(value)) return out;
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                   std::chars_format::fixed);
    digits.assign(buffer.data(), end.ptr);
  } else {
    digits = number.dump();
  }
  if (digits.starts_with('-')) {
    out.negative = true;
    digits.erase(0, 1);
  }
  const size_t point = digits.find('.');
  out.whole = digits.substr(0, point);
  if (point != std::string::npos) out.fraction = digits.substr(point + 1);
  while (out.fraction.ends_with('0')) out.fraction.pop_back();
  if (out.is_zero()) out.negative = false;
  return out;
}

std::string Decimal::text() const {
  return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

bool operator<(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative;
  const Decimal& small = a.negative ? b : a;
  const Decimal& large = a.negative ? a : b;
  if (small.whole.size() != large.whole.size()) return small.whole.size() < large.whole.size();
  if (small.whole != large.whole) return small.whole < large.whole;
  return small.fraction < large.fraction;
}

Result<Automaton> number_automaton(const NumberConditions& conditions) {
  // Beyond double precision a bound that excludes its own value could be met by rounding.
  uint32_t whole = 18, fraction = 6;
  const auto widen = [&](const Decimal& d) {
    whole = std::max(whole, static_cast<uint32_t>(d.whole.size()));
    fraction = std::max(fraction, static_cast<uint32_t>(d.fraction.size()) + 2);
  };
  for (const auto& b : conditions.at_least) widen(b.value);
  for (const auto& b : conditions.at_most) widen(b.value);
  for (const auto& m : conditions.multiple_of) widen(m);
  Digits digits(whole, fraction, conditions.integer);
  STRATA_ASSIGN_OR_RETURN(Automaton out, digits.builder.to_automaton(digits.any_number()));
  const auto restrict_to = [&](const Automaton& other) -> Status {
    STRATA_ASSIGN_OR_RETURN(out, intersection(out, other));
    return {};
  };
  for (const auto& b : conditions.at_least) {
    STRATA_ASSIGN_OR_RETURN(const Automaton a, digits.builder.to_automaton(digits.at_least(b)));
    STRATA_RETURN_IF_ERROR(restrict_to(a));
  }
  for (const auto& b : conditions.at_most) {
    STRATA_ASSIGN_OR_RETURN(const Automaton a, digits.builder.to_automaton(digits.at_most(b)));
    STRATA_RETURN_IF_ERROR(restrict_to(a));
  }
  for (const auto& m : conditions.multiple_of) {
    STRATA_ASSIGN_OR_RETURN(const Automaton a, multiples(m));
    STRATA_RETURN_IF_ERROR(restrict_to(a));
  }
  return out;
}

}  // namespace strata::grammar
