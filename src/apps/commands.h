// The commands. Each takes its settings, talks on the standard streams, and returns the exit code.
#pragma once

#include "apps/options.h"

namespace strata::apps {

int run_command(const Settings& settings);
int chat_command(const Settings& settings);
int serve_command(const Settings& settings);
int inspect_command(const Settings& settings);
int tokenize_command(const Settings& settings);
int eval_command(const Settings& settings);
int bench_command(const Settings& settings);
int doctor_command(const Settings& settings);
int kernels_command(const Settings& settings);
int plan_command(const Settings& settings);

}  // namespace strata::apps
