#include "text/grammar/free_text.h"

#include <utility>
#include <vector>

#include "text/grammar/json_string.h"

namespace strata::grammar {

namespace {

// Knuth, Morris and Pratt: how much of the marker the text so far ends with.
class Progress {
 public:
  explicit Progress(std::string_view marker) : marker_(marker), border_(marker.size() + 1, 0) {
    for (size_t i = 1; i < marker.size(); ++i) {
      border_[i + 1] = after(border_[i], static_cast<uint8_t>(marker[i]));
    }
  }
  size_t after(size_t matched, uint8_t byte) const {
    while (matched > 0 && static_cast<uint8_t>(marker_[matched]) != byte)
      matched = border_[matched];
    return static_cast<uint8_t>(marker_[matched]) == byte ? matched + 1 : 0;
  }

 private:
  std::string_view marker_;
  std::vector<size_t> border_;  // longest proper one, by length
};

// States are the progress, the one at the start swapped with state 0.
Automaton make(std::string_view marker, size_t start, bool through) {
  const Progress progress(marker);
  const size_t count = marker.size() + (through ? 1 : 0);
  const auto state_of = [start](size_t matched) {
    const size_t state = matched == start ? 0 : matched == 0 ? start : matched;
    return static_cast<uint32_t>(state);
  };
  Automaton out;
  out.states.resize(count);
  for (size_t matched = 0; matched < marker.size(); ++matched) {
    Automaton::State& state = out.states[state_of(matched)];
    state.final = !through;
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      const size_t next = progress.after(matched, byte);
      if (next >= count) continue;
      if (!state.edges.empty() && state.edges.back().to == state_of(next) &&
          state.edges.back().high + 1 == b) {
        state.edges.back().high = byte;
      } else {
        state.edges.push_back({byte, byte, state_of(next)});
      }
    }
  }
  if (through) out.states[marker.size()].final = true;
  return out;
}

}  // namespace

Automaton bytes_through(std::string_view marker) { return make(marker, 0, true); }

Automaton bytes_without(std::string_view marker, std::string_view before) {
  const Progress progress(marker);
  size_t matched = 0;
  for (const char c : before) {
    if (matched < marker.size()) matched = progress.after(matched, static_cast<uint8_t>(c));
  }
  return make(marker, matched < marker.size() ? matched : 0, false);
}

Result<Automaton> text_without(std::string_view marker, std::string_view before) {
  STRATA_ASSIGN_OR_RETURN(const Automaton text, text_automaton({}, write_utf8));
  return intersection(text, bytes_without(marker, before));
}

}  // namespace strata::grammar
