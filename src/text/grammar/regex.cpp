#include "text/grammar/regex.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace strata::grammar {

namespace {

enum class Kind { kEmpty, kSet, kConcat, kEither, kRepeat, kBegin, kEnd };

using NodeId = uint32_t;

struct Node {
  Kind kind = Kind::kEmpty;
  CodeSet set;
  uint32_t min = 0, max = 0;
  std::vector<NodeId> children;
  bool has_anchor = false;  // it or something in it
};

CodeSet digits() { return CodeSet({{'0', '9'}}); }
CodeSet word() { return CodeSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); }
CodeSet space() {
  return CodeSet({{9, 13},
                  {' ', ' '},
                  {0xA0, 0xA0},
                  {0x1680, 0x1680},
                  {0x2000, 0x200A},
                  {0x2028, 0x2029},
                  {0x202F, 0x202F},
                  {0x205F, 0x205F},
                  {0x3000, 0x3000},
                  {0xFEFF, 0xFEFF}});
}
CodeSet line_ends() { return CodeSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}); }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<NodeId> parse() {
    STRATA_ASSIGN_OR_RETURN(const NodeId root, either(0));
    if (at_ < text_.size()) return error("a ) without a (");
    return root;
  }
  std::vector<Node> take_nodes() { return std::move(nodes_); }

 private:
  template <class... Args>
  Status error(fmt::format_string<Args...> f, Args&&... args) const {
    return invalid_argument("the pattern has {} at byte {}",
                            fmt::format(f, std::forward<Args>(args)...), at_);
  }

  NodeId add(Node node) {
    for (const NodeId c : node.children) node.has_anchor |= nodes_[c].has_anchor;
    nodes_.push_back(std::move(node));
    return static_cast<NodeId>(nodes_.size() - 1);
  }
  NodeId add_set(CodeSet set) {
    Node node;
    node.kind = Kind::kSet;
    node.set = std::move(set);
    return add(std::move(node));
  }
  NodeId add_anchor(Kind kind) {
    Node node;
    node.kind = kind;
    node.has_anchor = true;
    return add(std::move(node));
  }

  bool more() const { return at_ < text_.size(); }
  char peek() const { return text_[at_]; }
  bool take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }

  Result<NodeId> either(int depth) {
    if (depth > kMaxRegexDepth) return error("more than {} nested groups", kMaxRegexDepth);
    Node node;
    node.kind = Kind::kEither;
    do {
      STRATA_ASSIGN_OR_RETURN(const NodeId way, concat(depth));
      node.children.push_back(way);
    } while (take("|"));
    if (node.children.size() == 1) return node.children[0];
    return add(std::move(node));
  }

  Result<NodeId> concat(int depth) {
    Node node;
    node.kind = Kind::kConcat;
    while (more() && peek() != '|' && peek() != ')') {
      STRATA_ASSIGN_OR_RETURN(NodeId part, atom(depth));
      STRATA_ASSIGN_OR_RETURN(part, quantified(part));
      node.children.push_back(part);
    }
    if (node.children.empty()) return add({});
    if (node.children.size() == 1) return node.children[0];
    return add(std::move(node));
  }

  Result<NodeId> quantified(NodeId part) {
    for (int count = 0;; ++count) {
      uint32_t min = 0, max = kUnbounded;
      const size_t before = at_;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (more() && peek() == '{') {
        STRATA_ASSIGN_OR_RETURN(const bool is_count, braces(min, max));
        if (!is_count) return part;
      } else {
        return part;
      }
      if (count > 0) {
        at_ = before;
        return error("a quantifier of a quantifier; group the inner one");
      }
      if (nodes_[part].has_anchor) {
        at_ = before;
        return error("a repeated anchor");
      }
      if (take("?")) {
        // Lazy: the same set of texts.
      } else if (more() && peek() == '+') {
        return error("a possessive quantifier, which is not supported");
      }
      Node node;
      node.kind = Kind::kRepeat;
      node.min = min;
      node.max = max;
      node.children = {part};
      part = add(std::move(node));
    }
  }

  std::optional<uint32_t> number() {
    const size_t begin = at_;
    uint64_t value = 0;
    while (more() && peek() >= '0' && peek() <= '9') {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(peek() - '0'), UINT32_MAX - 1);
      ++at_;
    }
    if (at_ == begin) return std::nullopt;
    return static_cast<uint32_t>(value);
  }

  // {n} {n,} {n,m}; a brace that is none of these stands for itself.
  Result<bool> braces(uint32_t& min, uint32_t& max) {
    const size_t before = at_;
    ++at_;
    const auto low = number();
    std::optional<uint32_t> high = low;
    if (low && take(",")) {
      high = number();
      if (!high) high = kUnbounded;
    }
    if (!low || !take("}")) {
      at_ = before;
      return false;
    }
    if (*low > *high) return error("a repetition from {} to {}, which is empty", *low, *high);
    if (*low > kMaxCount || (*high > kMaxCount && *high != kUnbounded)) {
      return error("a repetition beyond {}", kMaxCount);
    }
    min = *low;
    max = *high;
    return true;
  }

  Result<NodeId> atom(int depth) {
    const char c = peek();
    switch (c) {
      case '(': return group(depth);
      case '[': ++at_; return char_class();
      case '.': ++at_; return add_set(line_ends().complement());
      case '^': ++at_; return add_anchor(Kind::kBegin);
      case '$': ++at_; return add_anchor(Kind::kEnd);
      case '*':
      case '+':
      case '?': return error("a quantifier with nothing before it");
      case '\\':
        if (take("\\A")) return add_anchor(Kind::kBegin);
        if (take("\\z") || take("\\Z")) return add_anchor(Kind::kEnd);
        break;
      default: break;
    }
    if (c == '\\') {
      STRATA_ASSIGN_OR_RETURN(CodeSet set, escape(false));
      return add_set(std::move(set));
    }
    STRATA_ASSIGN_OR_RETURN(const char32_t code, character());
    return add_set(CodeSet({{code, code}}));
  }

  Result<NodeId> group(int depth) {
    const size_t before = at_;
    ++at_;
    if (take("?")) {
      if (take(":")) {
      } else if ((take("<") || take("P<")) && more() && peek() != '=' && peek() != '!') {
        while (more() && peek() != '>') ++at_;
        if (!take(">")) return error("a group name without an end");
      } else {
        at_ = before;
        return error(
            "a group of a kind that is not supported (look-around, flags and atomic groups are "
            "not)");
      }
    }
    STRATA_ASSIGN_OR_RETURN(const NodeId inner, either(depth + 1));
    if (!take(")")) {
      at_ = before;
      return error("a ( without a )");
    }
    return inner;
  }

  Result<char32_t> character() {
    const auto step = text::utf8_step(text_.substr(at_));
    if (step.kind != text::Utf8Kind::kCharacter) return error("invalid UTF-8");
    at_ += step.length;
    return step.code_point;
  }

  Result<char32_t> hex(size_t digits) {
    char32_t value = 0;
    size_t count = 0;
    const bool braced = take("{");
    const size_t most = braced ? 6 : digits;
    for (; count < most && more(); ++count, ++at_) {
      const char c = peek();
      uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<uint32_t>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<uint32_t>(c - 'A') + 10;
      } else {
        break;
      }
      value = value * 16 + digit;
    }
    if (count == 0 || (!braced && count < digits) || (braced && !take("}")) ||
        value > kLastCodePoint) {
      return error("a malformed code point");
    }
    return value;
  }

  // At a backslash.
  Result<CodeSet> escape(bool in_class) {
    const size_t before = at_;
    ++at_;
    if (!more()) return error("a backslash at its end");
    const char c = peek();
    if (static_cast<unsigned char>(c) >= 0x80) return error("an unknown escape");
    ++at_;
    const auto one = [](char32_t code) { return CodeSet({{code, code}}); };
    switch (c) {
      case 'd': return digits();
      case 'D': return digits().complement();
      case 'w': return word();
      case 'W': return word().complement();
      case 's': return space();
      case 'S': return space().complement();
      case 'n': return one('\n');
      case 'r': return one('\r');
      case 't': return one('\t');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case '0': return one(0);
      case 'b':
        if (in_class) return one('\b');
        break;
      case 'x':
      case 'u': {
        STRATA_ASSIGN_OR_RETURN(char32_t code, hex(c == 'x' ? 2 : 4));
        if (code >= 0xD800 && code <= 0xDBFF && take("\\u")) {
          STRATA_ASSIGN_OR_RETURN(const char32_t low, hex(4));
          if (low < 0xDC00 || low > 0xDFFF) return error("half a surrogate pair");
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        return one(code);
      }
      case 'c':
        if (more() && ((peek() | 0x20) >= 'a' && (peek() | 0x20) <= 'z')) {
          return one(static_cast<char32_t>(text_[at_++] & 0x1F));
        }
        break;
      case 'p':
      case 'P': {
        const size_t close = text_.find('}', at_);
        if (!take("{") || close == std::string_view::npos) break;
        const std::string_view name = text_.substr(at_, close - at_);
        at_ = close + 1;
        STRATA_ASSIGN_OR_RETURN(CodeSet set, CodeSet::category(name));
        return c == 'p' ? std::move(set) : set.complement();
      }
      default:
        if (!std::isalnum(static_cast<unsigned char>(c))) return one(static_cast<char32_t>(c));
        break;
    }
    at_ = before;
    return error("the escape \\{}, which is not supported", c);
  }

  // After the opening bracket.
  Result<NodeId> char_class() {
    const bool negated = take("^");
    std::vector<CodeRange> ranges;
    const auto add_all = [&](const CodeSet& set) {
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    while (true) {
      if (!more()) return error("a [ without a ]");
      if (take("]")) break;
      if (text_.substr(at_, 2) == "[:") return error("a POSIX class, which is not supported");
      CodeSet low;
      STRATA_ASSIGN_OR_RETURN(low, class_member());
      const bool single = low.ranges().size() == 1 && low.ranges()[0].low == low.ranges()[0].high;
      if (more() && peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        STRATA_ASSIGN_OR_RETURN(const CodeSet high, class_member());
        const bool single_high =
            high.ranges().size() == 1 && high.ranges()[0].low == high.ranges()[0].high;
        if (!single || !single_high || low.ranges()[0].low > high.ranges()[0].low) {
          return error("a range of characters that is not one");
        }
        ranges.push_back({low.ranges()[0].low, high.ranges()[0].low});
      } else {
        add_all(low);
      }
    }
    const CodeSet set(std::move(ranges));
    return add_set(negated ? set.complement() : set);
  }

  Result<CodeSet> class_member() {
    if (peek() == '\\') {
      if (take("\\-")) return CodeSet({{'-', '-'}});
      return escape(true);
    }
    STRATA_ASSIGN_OR_RETURN(const char32_t code, character());
    return CodeSet({{code, code}});
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Node> nodes_;
};

// Writes the tree as expressions. Anchors stand only at the edges of the pattern: `left` and
// `right` say whether the node under way touches them, and where an edge has no anchor, a search
// lets any text stand beyond it.
class Writer {
 public:
  Writer(GrammarBuilder& builder, std::vector<Node> nodes, RegexMatch match,
         const CharacterWriter& writer)
      : builder_(builder), nodes_(std::move(nodes)), writer_(writer) {
    padding_ = match == RegexMatch::kSearch
                   ? builder.repeat(writer(builder, CodeSet::all()), 0, kUnbounded)
                   : builder.empty();
  }

  Result<ExprId> write(NodeId id, bool left, bool right) {
    const Node& node = nodes_[id];
    if (!node.has_anchor) return padded(plain(id), left, right);
    switch (node.kind) {
      case Kind::kBegin:
        if (!left) return misplaced();
        return padded(builder_.empty(), false, right);
      case Kind::kEnd:
        if (!right) return misplaced();
        return padded(builder_.empty(), left, false);
      case Kind::kEither: {
        std::vector<ExprId> ways;
        for (const NodeId c : node.children) {
          STRATA_ASSIGN_OR_RETURN(const ExprId way, write(c, left, right));
          ways.push_back(way);
        }
        return builder_.either(std::move(ways));
      }
      case Kind::kConcat: return concat(node, left, right);
      default: return misplaced();
    }
  }

 private:
  static Status misplaced() {
    return invalid_argument(
        "the pattern has an anchor that is neither at its beginning nor at its end, which is not "
        "supported");
  }

  ExprId padded(ExprId e, bool left, bool right) {
    return builder_.concat(
        {left ? padding_ : builder_.empty(), e, right ? padding_ : builder_.empty()});
  }

  Result<ExprId> concat(const Node& node, bool left, bool right) {
    // Anchors at an edge close it for what follows inwards; repeated ones change nothing.
    size_t first = 0, last = node.children.size();
    while (left && first < last && nodes_[node.children[first]].kind == Kind::kBegin) ++first;
    const bool pad_left = left && first == 0;
    while (right && last > first && nodes_[node.children[last - 1]].kind == Kind::kEnd) --last;
    const bool pad_right = right && last == node.children.size();
    std::vector<ExprId> parts;
    if (pad_left && (first == last || !nodes_[node.children[first]].has_anchor)) {
      parts.push_back(padding_);
    }
    for (size_t i = first; i < last; ++i) {
      const NodeId child = node.children[i];
      if (!nodes_[child].has_anchor) {
        parts.push_back(plain(child));
        continue;
      }
      STRATA_ASSIGN_OR_RETURN(const ExprId part,
                              write(child, (i == first && pad_left), (i + 1 == last && pad_right)));
      parts.push_back(part);
    }
    if (pad_right && (first == last || !nodes_[node.children[last - 1]].has_anchor)) {
      parts.push_back(padding_);
    }
    return builder_.concat(std::move(parts));
  }

  ExprId plain(NodeId id) {
    const Node& node = nodes_[id];
    std::vector<ExprId> parts;
    switch (node.kind) {
      case Kind::kSet: return node.set.empty() ? builder_.none() : writer_(builder_, node.set);
      case Kind::kRepeat: return builder_.repeat(plain(node.children[0]), node.min, node.max);
      case Kind::kConcat:
      case Kind::kEither:
        for (const NodeId c : node.children) parts.push_back(plain(c));
        return node.kind == Kind::kConcat ? builder_.concat(std::move(parts))
                                          : builder_.either(std::move(parts));
      default: return builder_.empty();
    }
  }

  GrammarBuilder& builder_;
  std::vector<Node> nodes_;
  const CharacterWriter& writer_;
  ExprId padding_;
};

}  // namespace

ExprId write_utf8(GrammarBuilder& builder, const CodeSet& set) {
  return builder.characters(set.ranges());
}

Result<ExprId> compile_regex(GrammarBuilder& builder, std::string_view pattern, RegexMatch match,
                             const CharacterWriter& writer) {
  if (pattern.size() > kMaxRegexBytes) {
    return invalid_argument("the pattern has {} bytes; at most {} are allowed", pattern.size(),
                            kMaxRegexBytes);
  }
  Parser parser(pattern);
  STRATA_ASSIGN_OR_RETURN(const NodeId root, parser.parse());
  Writer tree(builder, parser.take_nodes(), match, writer);
  STRATA_ASSIGN_OR_RETURN(const ExprId e, tree.write(root, true, true));
  STRATA_RETURN_IF_ERROR(builder.status());
  return e;
}

}  // namespace strata::grammar
