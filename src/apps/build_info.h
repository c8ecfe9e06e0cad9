// What this build is.
#pragma once

namespace strata::apps {

// The text of BUILD.json, which lies beside the program: version, hash of the sources, compiler, back
// ends with their architectures and weight types. Never fails; lives as long as the program.
const char* build_info();

}  // namespace strata::apps
