#include "text/jinja/print.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/code_points.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace strata::jinja {

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

namespace {

// Numbers, booleans and none, which contain no text of the request.
std::string scalar_text(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_big()) return std::to_string(value.as_big());
  return float_repr(value.as_float());
}

void append_escape(char32_t c, std::string& out) {
  if (c < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
  }
}

void append_string_repr(Runtime& runtime, const Text& text, Text& out) {
  runtime.step_bytes(text.size());
  const bool single = text.view().find('\'') != std::string_view::npos;
  const bool twofold = text.view().find('"') != std::string_view::npos;
  const char quote = single && !twofold ? '"' : '\'';
  out.append(std::string_view(&quote, 1), true);
  text.for_each_run([&](std::string_view run, bool trusted) {
    std::string escaped;
    for (std::size_t pos = 0; pos < run.size();) {
      const CodePoint c = decode_at(run, pos);
      if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
        escaped += '\\';
        escaped += static_cast<char>(c.value);
      } else if (c.value == '\n') {
        escaped += "\\n";
      } else if (c.value == '\r') {
        escaped += "\\r";
      } else if (c.value == '\t') {
        escaped += "\\t";
      } else if (!is_printable(c.value)) {
        append_escape(c.value, escaped);
      } else {
        escaped.append(run.substr(pos, c.size));
      }
      pos += c.size;
    }
    out.append(escaped, trusted);
  });
  out.append(std::string_view(&quote, 1), true);
}

void append_repr(Runtime& runtime, const Value& value, Text& out);

void append_list_repr(Runtime& runtime, const List& list, Text& out) {
  const auto items = [&] {
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out.append(", ", true);
      append_repr(runtime, list.items[i], out);
    }
  };
  switch (list.kind) {
    case ListKind::kList:
      out.append("[", true);
      items();
      out.append("]", true);
      return;
    case ListKind::kTuple:
    case ListKind::kGroup:
      out.append("(", true);
      items();
      out.append(list.items.size() == 1 ? ",)" : ")", true);
      return;
    case ListKind::kView:
      out.append(list.view_name, true);
      out.append("([", true);
      items();
      out.append("])", true);
      return;
    case ListKind::kRange:
      out.append(list.range[2] == 1 ? fmt::format("range({}, {})", list.range[0], list.range[1])
                                    : fmt::format("range({}, {}, {})", list.range[0], list.range[1],
                                                  list.range[2]),
                 true);
      return;
    case ListKind::kGenerator: fail("the result of a lazy filter must go through |list first");
  }
}

void append_repr(Runtime& runtime, const Value& value, Text& out) {
  runtime.step();
  if (value.is_text()) {
    append_string_repr(runtime, value.text(), out);
  } else if (value.is_undefined()) {
    out.append("Undefined", true);
  } else if (value.is_list()) {
    append_list_repr(runtime, value.list(), out);
  } else if (value.is_dict()) {
    out.append("{", true);
    bool first = true;
    for (const auto& [key, item] : value.dict().entries()) {
      if (!first) out.append(", ", true);
      first = false;
      append_repr(runtime, key, out);
      out.append(": ", true);
      append_repr(runtime, item, out);
    }
    out.append("}", true);
  } else if (value.is_bound() || value.is_object()) {
    out.append(fmt::format("<{}>", type_name(value)), true);
  } else {
    out.append(scalar_text(value), true);
  }
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, Text& out)
      : runtime_(runtime), style_(style), out_(out) {}

  void write(const Value& value, int level) {
    runtime_.step();
    if (value.is_text()) {
      write_string(value.text());
    } else if (value.is_none()) {
      out_.append("null", true);
    } else if (value.is_bool()) {
      out_.append(value.as_bool() ? "true" : "false", true);
    } else if (value.is_float()) {
      out_.append(float_text(value.as_float()), true);
    } else if (value.is_int() || value.is_big()) {
      out_.append(scalar_text(value), true);
    } else if (value.is_list() && is_json_list(value.list())) {
      write_list(value.list(), level);
    } else if (value.is_dict()) {
      write_dict(value.dict(), level);
    } else if (value.is_undefined()) {
      fail_undefined(value);
    } else {
      fail("a {} cannot be written as JSON", type_name(value));
    }
  }

 private:
  static bool is_json_list(const List& list) {
    return list.kind == ListKind::kList || list.kind == ListKind::kTuple ||
           list.kind == ListKind::kGroup;
  }

  static std::string float_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void new_line(int level) {
    if (!style_.indent) return;
    out_.append("\n", true);
    for (int i = 0; i < level; ++i) out_.append(*style_.indent);
  }

  void write_list(const List& list, int level) {
    if (list.items.empty()) {
      out_.append("[]", true);
      return;
    }
    out_.append("[", true);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      write(list.items[i], level + 1);
    }
    new_line(level);
    out_.append("]", true);
  }

  void write_key(const Value& key) {
    if (key.is_text()) {
      write_string(key.text());
      return;
    }
    if (key.is_list()) fail("a tuple cannot be a key in JSON");
    const std::string name = key.is_none()    ? "null"
                             : key.is_bool()  ? (key.as_bool() ? "true" : "false")
                             : key.is_float() ? float_text(key.as_float())
                                              : scalar_text(key);
    write_string(Text(name, true));
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.size() == 0) {
      out_.append("{}", true);
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return compare(runtime_, a->first, b->first) < 0;
      });
    }
    out_.append("{", true);
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      new_line(level + 1);
      write_key(entry->first);
      out_.append(style_.key_separator);
      write(entry->second, level + 1);
    }
    new_line(level);
    out_.append("}", true);
  }

  void write_string(const Text& text) {
    runtime_.step_bytes(text.size());
    out_.append("\"", true);
    text.for_each_run([&](std::string_view run, bool trusted) {
      std::string escaped;
      escaped.reserve(run.size());
      for (std::size_t pos = 0; pos < run.size();) {
        const CodePoint c = decode_at(run, pos);
        append_json_char(c, run.substr(pos, c.size), escaped);
        pos += c.size;
      }
      out_.append(escaped, trusted);
    });
    out_.append("\"", true);
  }

  void append_json_char(CodePoint c, std::string_view bytes, std::string& out) const {
    switch (c.value) {
      case '"': out += "\\\""; return;
      case '\\': out += "\\\\"; return;
      case '\n': out += "\\n"; return;
      case '\r': out += "\\r"; return;
      case '\t': out += "\\t"; return;
      case '\b': out += "\\b"; return;
      case '\f': out += "\\f"; return;
      default: break;
    }
    const auto unit = [&](char32_t u) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(u));
    };
    if (c.value < 0x20) {
      unit(c.value);
    } else if (!style_.ascii_only || c.value < 0x7F) {
      out += bytes;
    } else if (c.value < 0x10000) {
      unit(c.value);
    } else {
      unit(0xD800 + ((c.value - 0x10000) >> 10));
      unit(0xDC00 + ((c.value - 0x10000) & 0x3FF));
    }
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  Text& out_;
};

}  // namespace

void append_text(Runtime& runtime, const Value& value, Text& out) {
  if (value.is_text()) {
    runtime.step_bytes(value.text().size());
    out.append(value.text());
  } else if (!value.is_undefined()) {
    append_repr(runtime, value, out);
  }
}

Text to_text(Runtime& runtime, const Value& value) {
  Text out;
  append_text(runtime, value, out);
  return out;
}

Text to_repr(Runtime& runtime, const Value& value) {
  Text out;
  append_repr(runtime, value, out);
  return out;
}

Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  Text out;
  JsonWriter(runtime, style, out).write(value, 0);
  return out;
}

}  // namespace strata::jinja
