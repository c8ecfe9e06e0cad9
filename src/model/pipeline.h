// Prompt chunks flowing through the stages: while stage 2 reads chunk c, stage 1 reads chunk c + 1
// and the rows of chunk c + 1 or c + 2 are on their way. No stage waits for its own device but to
// keep at most two chunks in it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/handoff.h"
#include "model/stage.h"

namespace strata::model {

// Between a stage and the next one: two chunks may be on their way.
using Handoffs = std::array<std::unique_ptr<Handoff>, 2>;

// Runs tokens [0, tokens) through `stages` (two or more), `cut` at a time. `next_step` fills in the
// step that begins at a token; it runs on the calling thread, as the first stage does, and its
// failure ends the run. Every other stage gets a thread. Returns the failure that came first, but
// kCancelled only where nothing else failed; all stages and their devices have then stopped.
// `handoffs`: one per stage but the last; kept by the caller, since making them is slow.
Status run_pipeline(const std::vector<std::unique_ptr<Stage>>& stages,
                    std::span<const Handoffs> handoffs, size_t tokens, size_t cut,
                    const std::function<Status(size_t begin, Step& step)>& next_step,
                    std::vector<float>& logits);

}  // namespace strata::model
