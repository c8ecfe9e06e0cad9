#include "apps/report.h"

#include "apps/exit_code.h"
#include "apps/files.h"

namespace strata::apps {

int report_failure(const Status& status) {
  if (status.code() == StatusCode::kCancelled) return kInterrupted;
  complain(status.message());
  return kFailure;
}

int report_usage(CommandId id, const Status& status) {
  complain(fmt::format("{}; see \"strata help {}\"", status.message(), command(id).name));
  return kUsageError;
}

int print_result(std::string_view text) {
  if (write_out(text)) return kSuccess;
  complain("the result could not be written to standard output");
  return kFailure;
}

}  // namespace strata::apps
